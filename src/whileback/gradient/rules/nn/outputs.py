"""Optional outputs that a rule needs, whether the model asks for them or not."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder

__all__ = ["extra_output"]


def extra_output(op: GradientBuilder, node: ir.Node, index: int, dtype: ir.DataType) -> ir.Value:
    """Return an output of the forward node, of the shape of its first one; added if left out."""
    if len(node.outputs) <= index:
        node.resize_outputs(index + 1)
    output = node.outputs[index]
    if not output.name:
        output.name = op.names.fresh(f"{node.outputs[0].name}_{index}")
        output.type, output.shape = ir.TensorType(dtype), node.outputs[0].shape
    return output

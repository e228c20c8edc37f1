"""Optional outputs that a rule needs, whether the model asks for them or not."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder

__all__ = ["extra_output"]


def extra_output(
    op: GradientBuilder,
    node: ir.Node,
    index: int,
    dtype: ir.DataType,
    shape: ir.Shape | None = None,
) -> ir.Value:
    """Return an output of the forward node; added if left out.

    It has the shape of the first one unless another is given.
    """
    if len(node.outputs) <= index:
        node.resize_outputs(index + 1)
    output = node.outputs[index]
    if not output.name:
        output.name = op.names.fresh(f"{node.outputs[0].name}_{index}")
        output.type, output.shape = ir.TensorType(dtype), shape or node.outputs[0].shape
    return output

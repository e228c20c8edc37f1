"""What the gradients of elementwise functions of one tensor have in common.

Their gradient operators differ only in what they read: X, Y and dY, in an order of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    lowerings,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

__all__ = ["gradient_reads"]


def gradient_reads(reads: str, *types: str) -> None:
    """Register makers of gradient operators, and where X is read, their lowerings.

    Args:
        reads: "X dY", "Y dY" and so on, as the operator `<type>Gradient` takes its inputs.
        types: the functions.
    """
    order = reads.split()

    def maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
        """dX = XGradient of X, Y and dY, or of some of them."""
        blobs = {"X": op.input[0], "Y": op.output[0], "dY": dys[0]}
        inputs = [blobs[name] for name in order]
        return grad.emit(f"{op.type}Gradient", inputs, of=op.input[:1], like=op)

    def gradient(op: Emitter, node: Operator) -> list[ir.Value]:
        """dX, by the rules of the operators that X becomes Y by."""
        given = dict(zip(order, node.tensors(len(order)), strict=True))
        blob = node.proto.input[order.index("X")]

        def forward(op: Emitter, X: ir.Value) -> ir.Value:
            function = node.forward([blob], [X])
            Y = lowerings[function.type](op, function)
            assert isinstance(Y, ir.Value)
            return Y

        return op.pullback(forward, [given["X"]], [given["dY"]])

    gradient_operator(*types)(maker)
    if "X" in order:
        lowering(*(f"{op_type}Gradient" for op_type in types))(gradient)

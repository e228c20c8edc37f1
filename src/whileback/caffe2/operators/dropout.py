"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

RATIO = 0.5


@lowering("Dropout")
def dropout(op: Emitter, node: Operator) -> Sequence[ir.Value | None]:
    """Y = X·mask/(1 - ratio) with a random mask; Y = X with `is_test`, and no mask is written."""
    (X,) = node.tensors(1)
    if node.args.bool("is_test", False):
        return [X, None]
    return op.emit("Dropout", [X, node.args.float("ratio", RATIO), True], outputs=2)


@lowering("DropoutGrad")
def dropout_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·mask/(1 - ratio), or dY with `is_test`."""
    (dY,) = node.tensors(1)
    if node.args.bool("is_test", False):
        return dY
    dY, mask = node.tensors(2)
    factor = 1 / (1 - node.args.float("ratio", RATIO))
    return op.Where(mask, op.Mul(dY, factor), 0.0)


@gradient_operator("Dropout")
def dropout_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = DropoutGrad(dY, mask), or of dY alone with `is_test`."""
    mask = [] if Arguments(op).bool("is_test", False) else [op.output[1]]
    return grad.emit("DropoutGrad", [dys[0], *mask], of=op.input, like=op)

"""Mean and variance."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.reading.emitter import Emitter

__all__ = ["moments"]


def moments(op: Emitter, X: ir.Value, axes: Sequence[int] | None) -> tuple[ir.Value, ir.Value]:
    """Return mean and variance over axes, which are kept, or over all."""
    over = [] if axes is None else [axes]
    mean = op.ReduceMean(X, *over)
    centred = op.Sub(X, mean)
    return mean, op.ReduceMean(op.Mul(centred, centred), *over)


@lowering("Moments")
def moments_of(op: Emitter, node: Operator) -> list[ir.Value]:
    """Mean and variance of X over `axes`, by default over all."""
    (X,) = node.tensors(1)
    axes = node.args.ints("axes", []) or None
    found = list(moments(op, X, axes))
    if node.args.bool("keepdims", True):
        return found
    return [op.Squeeze(value, *([] if axes is None else [axes])) for value in found]


replayed_gradient("dY0 dY1 X0 Y0", "X0", "Moments")

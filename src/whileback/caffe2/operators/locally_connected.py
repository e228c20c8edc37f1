"""Convolutions whose filters differ from place to place."""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.conv import conv_maker
from whileback.caffe2.operators.orders import from_nchw, is_nhwc, to_nchw
from whileback.caffe2.operators.registry import Operator, gradient_operator, lowering
from whileback.caffe2.operators.windows import unfold, window_over
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import UnsupportedError

TYPES = ("LC", "LC1D", "LC2D", "LC3D")


@lowering(*TYPES)
def locally_connected(op: Emitter, node: Operator) -> ir.Value:
    """Y[n,m,i] = Σ W[i,m,c,k]·X[n,c,stride·i + k - pad] + B[i,m]."""
    X, W = node.tensors(2)
    groups = node.args.int("group", 1)
    if groups != 1:
        raise UnsupportedError(f"it has {groups} groups. Split it into an LC for each.")
    return _locally_connected(op, node, X, W, node.optional(2))


def _locally_connected(
    op: Emitter, node: Operator, X: ir.Value, W: ir.Value, B: ir.Value | None = None
) -> ir.Value:
    images = to_nchw(op, node, X)
    window = window_over(node, images)
    count = len(window.kernel)
    element = [2, 1] if is_nhwc(node) else [1, 2]
    rows = op.Transpose(unfold(op, images, window), perm=[*range(3, 3 + count), 0, *element])
    rows, filters = (op.Reshape(value, [0] * (count + 1) + [-1]) for value in (rows, W))
    Y = op.MatMul(rows, op.Transpose(filters, perm=[*range(count), count + 1, count]))
    if B is not None:
        Y = op.Add(Y, op.Unsqueeze(B, [count]))
    return from_nchw(op, node, op.Transpose(Y, perm=[count, count + 1, *range(count)]))


@lowering(*(f"{op_type}Gradient" for op_type in TYPES))
def locally_connected_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """The gradients of W, B and X, from X, W and dY; without that of B if there was `no_bias`."""
    X, W, dY = node.tensors(3)
    dX, dW = op.pullback(lambda op, X, W: _locally_connected(op, node, X, W), [X, W], [dY])
    if node.args.bool("no_bias", False):
        return [dW, dX]
    sums = op.ReduceSum(to_nchw(op, node, dY), [0], keepdims=0)
    order = [*range(1, len(sums.shape or ())), 0]
    return [dW, op.Transpose(sums, perm=order), dX]


gradient_operator(*TYPES)(conv_maker)

"""Gradients of reductions."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.guards import over, times
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.constants import known_ints
from whileback.graph.shapes import static_shape


@rule("ReduceSum")
def reduce_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Σ X over the axes, so dX is dY, spread over the axes."""
    return op.expand(_keep_axes(op, node, dY), required(node))


@rule("ReduceMean")
def reduce_mean(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Σ X/n over the axes, n elements each, so dX is dY/n, spread over the axes."""
    X, count = required(node), _count(node)
    wide = op.widened(dY)  # FLOAT16 has no numbers above 65504
    if count is not None:
        share = op.Div(wide, float(max(count, 1)))
    else:
        each = op.Div(op.Size(X), op.Max(op.Size(node.outputs[0]), 1))
        share = op.Div(wide, op.cast(op.Max(each, 1), wide))
    return op.expand(_keep_axes(op, node, op.cast(share, dY)), X)


@rule("ReduceSumSquare")
def reduce_sum_square(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Σ X² over the axes, so dX = 2·dY·X."""
    return op.Mul(_keep_axes(op, node, dY), op.Mul(required(node), 2.0))


@rule("ReduceL1")
def reduce_l1(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Σ |X| over the axes, so dX = dY·sign(X); at 0 it is 0."""
    return op.Mul(_keep_axes(op, node, dY), op.Sign(required(node)))


@rule("ReduceL2")
def reduce_l2(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = √(Σ X²) over the axes, so dX = dY·X/Y; where all is 0 it is 0."""
    Y = node.outputs[0]
    norm = op.Where(op.Cast(Y, to=int(ir.DataType.BOOL)), Y, 1.0)
    return op.Mul(_keep_axes(op, node, op.Div(dY, norm)), required(node))


@rule("ReduceLogSum")
def reduce_log_sum(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = log Σ X over the axes, so dX is dY, spread over the axes, times exp(-Y).

    It is spread first, so that no infinite slope is met where nothing is reduced.
    """
    spread = op.expand(_keep_axes(op, node, dY), required(node))
    return times(op, node, spread, op.Exp(op.Neg(_keep_axes(op, node, node.outputs[0]))))


@rule("ReduceLogSumExp")
def reduce_log_sum_exp(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = log Σ exp(X) over the axes, so dX = dY·exp(X - Y)."""
    Y, dY = _keep_axes(op, node, node.outputs[0]), _keep_axes(op, node, dY)
    return times(op, node, dY, op.Exp(op.Sub(required(node), Y)))


@rule("ReduceProd")
def reduce_prod(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = Π X over the axes, so dX = dY·Y/X, and at a zero of X dY times the product of the rest.

    Exact for any number of zeros, and so is its own gradient: at one of two zeros it is written as
    the rest times the other zero. Third derivatives miss triples of zeros in one product.
    """
    X = required(node)
    zero = op.Equal(X, op.constant(0.0, X.dtype))
    others = op.Where(zero, 1.0, X)
    count = _reduce(op, node, "ReduceSum", op.cast(zero, X))
    product = _reduce(op, node, "ReduceProd", others)
    other_zero = op.Sub(_reduce(op, node, "ReduceSum", op.Where(zero, X, 0.0)), X)
    pair = op.Where(op.Equal(count, 2.0), op.Mul(product, other_zero), 0.0)
    rest = op.Where(op.Equal(count, 1.0), product, pair)
    slope = op.Where(zero, rest, op.Div(_keep_axes(op, node, node.outputs[0]), others))
    return op.Mul(_keep_axes(op, node, dY), slope)


@rule("ReduceMax", "ReduceMin")
def reduce_max(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is the largest (smallest) X over the axes, so dX is dY there; equal ones share it."""
    X = required(node)
    chosen = op.cast(op.Equal(X, _keep_axes(op, node, node.outputs[0])), dY)
    count, dY = _reduce(op, node, "ReduceSum", chosen), _keep_axes(op, node, dY)
    if _count(node):
        return op.Mul(chosen, over(op, node, dY, count))
    # Without a 0/0 for its own gradient to meet where nothing is reduced.
    return times(op, node, dY, op.Div(chosen, count))


def _reduce(op: GradientBuilder, node: ir.Node, op_type: str, value: ir.Value) -> ir.Value:
    """Reduce a value over the axes that the node reduces, and keep them."""
    noop = 1 if _is_noop_without_axes(node) else None
    return op.emit(op_type, [value, optional(node, 1)], {"noop_with_empty_axes": noop})[0]


def _axes(node: ir.Node) -> list[int] | None:
    """Return the axes that are reduced, where they are known."""
    given, X = optional(node, 1), required(node)
    axes = [] if given is None else known_ints(given)
    if axes is None or axes or _is_noop_without_axes(node):
        return axes
    return None if X.shape is None else list(range(len(X.shape)))


def _is_noop_without_axes(node: ir.Node) -> bool:
    return bool(node.attributes.get_int("noop_with_empty_axes", 0))


def _count(node: ir.Node) -> int | None:
    """Return how many elements are reduced to one, if that is known."""
    axes, X = _axes(node), required(node)
    if axes is None or X.shape is None:
        return None
    dims = [X.shape[axis] for axis in axes]
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(sizes) if len(sizes) == len(dims) else None


def _keep_axes(op: GradientBuilder, node: ir.Node, value: ir.Value) -> ir.Value:
    """Give a value of the shape of the output the axes of size 1 that keepdims=1 leaves.

    A scalar needs none.
    """
    axes = optional(node, 1)
    if node.attributes.get_int("keepdims", 1) or axes is None or static_shape(value) == ():
        return value
    return op.Unsqueeze(value, axes)

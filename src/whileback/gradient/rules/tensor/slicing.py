"""Gradients of operators that cut off or add at the ends of axes."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.gradient.rules.tensor.places import pad_along, put_back, put_back_along
from whileback.graph.builder import Operand
from whileback.graph.constants import known_ints
from whileback.graph.shapes import same_shape, size

__all__ = ["added_ends"]

Axes = list[int] | ir.Value | None
# Where a slice ends that goes to the end of an axis.
END = 2**63 - 1


@rule("Slice")
def slice_(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X from start to end in steps, so dX is dY at its place amid zeros."""
    X, starts, ends = required(node), required(node, 1), required(node, 2)
    axes, steps = _axes(op, starts, optional(node, 3)), optional(node, 4)
    if steps is not None and set(known_ints(steps) or [0]) != {1}:
        if isinstance(axes, list) and len(axes) == 1:
            return put_back_along(
                op, X, dY, axes[0], lambda numbers: op.Slice(numbers, starts, ends, [0], steps)
            )
        return put_back(op, X, dY, lambda numbers: op.Slice(numbers, *node.inputs[1:]))
    if same_shape(X, node.outputs[0]):
        return dY
    pads = _known_cuts(X, starts, ends, axes)
    return pad_along(op, dY, pads or _cuts(op, X, starts, axes, dY), axes)


def _axes(op: GradientBuilder, starts: ir.Value, axes: ir.Value | None) -> list[int] | ir.Value:
    """Return the axes of a slice, the first ones by default, as a list where they are known."""
    if axes is not None:
        return known_ints(axes) or axes
    count = size(starts)
    return op.Range(0, op.Size(starts), 1) if count is None else list(range(count))


def _known_cuts(X: ir.Value, starts: ir.Value, ends: ir.Value, axes: Axes) -> list[int] | None:
    """Return how much the slice cuts off, at the begins and then at the ends, if that is known."""
    first, last = known_ints(starts), known_ints(ends)
    if first is None or last is None or not isinstance(axes, list) or X.shape is None:
        return None
    dims = [dim for dim in (X.shape[axis] for axis in axes) if isinstance(dim, int)]
    if len(dims) < len(axes):
        return None
    kept = [range(dim)[start:end] for dim, start, end in zip(dims, first, last, strict=True)]
    begins = [part.start for part in kept]
    return begins + [dim - part.start - len(part) for dim, part in zip(dims, kept, strict=True)]


def _cuts(op: GradientBuilder, X: ir.Value, starts: ir.Value, axes: Axes, dY: ir.Value) -> ir.Value:
    """Return the same from the sizes at run time."""
    dims = _dims(op, X, axes)
    begins = _begins(op, starts, dims)
    return op.Concat(begins, op.Sub(op.Sub(dims, begins), _dims(op, dY, axes)), axis=0)


def _dims(op: GradientBuilder, value: ir.Value, axes: Axes) -> ir.Value:
    """Return the value's dimensions along the axes."""
    if isinstance(axes, list) and value.shape is not None:
        known = [value.shape[axis] for axis in axes]
        if all(isinstance(dim, int) for dim in known):
            return op.constant(known, ir.DataType.INT64)
    if isinstance(axes, list) and len(axes) == 1:
        return op.dim(value, axes[0])
    shape = op.shape_of(value)
    return shape if axes is None else op.Gather(shape, axes)


def _begins(op: GradientBuilder, starts: ir.Value, dims: ir.Value) -> Operand:
    """Return the starts counted from the front and clamped to the axes."""
    known = known_ints(starts)
    if known is not None and not any(known):
        return known
    wide = op.cast(starts, ir.DataType.INT64)
    if known is not None and min(known) > 0:
        return op.Min(wide, dims)
    from_end = op.Max(op.Add(wide, dims), 0)
    if known is not None and max(known) < 0:
        return from_end
    return op.Min(op.Where(op.Less(wide, 0), from_end, wide), dims)


@rule("Pad")
def pad(
    op: GradientBuilder, node: ir.Node, dY: ir.Value
) -> tuple[ir.Value | None, None, ir.Value | None]:
    """Y is X amid a value V or copies of X: dX is dY cut to X, with its copies; dV the rest."""
    X, pads, value = required(node), required(node, 1), optional(node, 2)
    axes = known_ints(optional(node, 3)) or optional(node, 3)
    mode = node.attributes.get_string("mode", "constant")
    if mode != "constant":
        return _fold(op, X, pads, axes, mode, dY), None, None
    dX = _without_pads(op, node, dY) if X in op.active else None
    if value is None or value not in op.active:
        return dX, None, None
    outside = pad_along(op, op.Expand(False, op.shape_of(X)), pads, axes, True)
    chosen = op.Where(outside, dY, op.constant(0, dY.dtype))
    return dX, None, op.reshape(op.ReduceSum(chosen, keepdims=0), value)


def _without_pads(op: GradientBuilder, node: ir.Node, Y: ir.Value) -> ir.Value:
    """Return what is left of Y without what the node added at its ends."""
    cut = added_ends(node)
    if cut is not None:
        return op.Slice(Y, *cut) if cut[0] else Y
    pads, axes = required(node, 1), known_ints(optional(node, 3)) or optional(node, 3)
    known = known_ints(pads)
    return pad_along(op, Y, op.Neg(pads) if known is None else [-n for n in known], axes)


def added_ends(node: ir.Node) -> tuple[list[int], list[int], list[int]] | None:
    """Return where along which axes that begins and ends which a `Pad` adds to.

    None if that is not known, or the node cuts off as well.
    """
    pads, axes = known_ints(required(node, 1)), known_ints(optional(node, 3))
    if pads is None or min(pads, default=0) < 0 or (axes is None and optional(node, 3) is not None):
        return None
    count = len(pads) // 2
    sides = zip(axes or range(count), pads[:count], pads[count:], strict=True)
    padded = [(axis, begin, end) for axis, begin, end in sides if begin or end]
    return (
        [begin for _, begin, _ in padded],
        [-end if end else END for _, _, end in padded],
        [axis for axis, _, _ in padded],
    )


def _fold(
    op: GradientBuilder,
    X: ir.Value,
    pads: ir.Value,
    axes: Axes,
    mode: str | None,
    dY: ir.Value,
) -> ir.Value:
    """Add what comes back to the copies at the ends of the axes to what they are copies of."""
    known = known_ints(pads)
    if known is not None and not isinstance(axes, ir.Value):
        begins, ends = known[: len(known) // 2], known[len(known) // 2 :]
        padded = [k for k, both in enumerate(zip(begins, ends, strict=True)) if any(both)]
        if len(padded) == 1:
            (k,) = padded
            axis = k if axes is None else axes[k]
            return put_back_along(
                op, X, dY, axis, lambda numbers: op.Pad(numbers, [begins[k], ends[k]], mode=mode)
            )
    return put_back(op, X, dY, lambda numbers: pad_along(op, numbers, pads, axes, mode=mode))

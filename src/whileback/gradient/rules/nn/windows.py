"""The sliding windows of convolutions and pools: their attributes, defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder

__all__ = [
    "Pads",
    "Window",
    "explicit_pads",
    "input_pads",
    "input_window",
    "is_automatic",
    "output_pads",
    "output_window",
    "sizes",
]

Known = int | None
Pads = tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class Window:
    """A sliding window, one number per spatial axis; None for what only the run shows.

    Attributes:
        kernel: how many elements it reads.
        strides: how far it moves.
        dilations: the distance between the elements that it reads.
        pads: at the begins of all axes, then at their ends; None where one of them is not known.
        rest: how many elements at the end of the padded axis no window reaches.
    """

    kernel: tuple[Known, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None
    rest: tuple[Known, ...]

    @property
    def axes(self) -> list[int]:
        """The axes over which the window slides: all but batch and channel."""
        return list(range(2, 2 + len(self.strides)))

    @property
    def sides(self) -> tuple[list[int], list[int]]:
        """The pads at the begins and those at the ends, 0 where they are not known."""
        count = len(self.strides)
        pads = self.pads or (0,) * (2 * count)
        return list(pads[:count]), list(pads[count:])


def _known_dims(value: ir.Value | None, count: int) -> tuple[Known, ...]:
    """Return the last `count` dimensions of the value, None for each that is unknown."""
    if value is None or value.shape is None:
        return (None,) * count
    last = value.shape[len(value.shape) - count :]
    return tuple(dim if isinstance(dim, int) else None for dim in last)


def input_window(node: ir.Node) -> Window:
    """Return the window that a convolution or a pool slides over its first input.

    Where `ceil_mode` adds a window that reaches beyond the end, the padding there is that larger.

    Raises: UnsupportedError if nothing shows how many axes there are.
    """
    kernel, strides, dilations = _slide(node)
    count = len(kernel)
    axes = list(zip(_known_dims(node.inputs[0], count), kernel, strides, dilations, strict=True))
    pads = _pads(node, [_same_padding(*axis) for axis in axes])
    if pads is None:
        rest: list[Known] = [0 if stride == 1 else None for stride in strides]
        return Window(kernel, strides, dilations, None, tuple(rest))
    begins, ends = pads[:count], pads[count:]
    ceil = bool(node.attributes.get_int("ceil_mode", 0))
    rest = [_rest(b, e, ceil, *axis) for b, e, axis in zip(begins, ends, axes, strict=True)]
    if ceil and None in rest:
        return Window(kernel, strides, dilations, None, tuple(rest))
    ends = tuple(end - min(0, r or 0) for end, r in zip(ends, rest, strict=True))
    rest = [r if r is None else max(0, r) for r in rest]
    return Window(kernel, strides, dilations, (*begins, *ends), tuple(rest))


def _same_padding(size: Known, kernel: Known, stride: int, dilation: int) -> Known:
    """Return the padding for ⌈size/stride⌉ windows."""
    if kernel is None or (size is None and stride > 1):
        return None
    spare = 0 if size is None else (size - 1) % stride
    return max(0, dilation * (kernel - 1) - spare)


def _rest(
    begin: int, end: int, ceil: bool, size: Known, kernel: Known, stride: int, dilation: int
) -> Known:
    """Return how far the last window ends before the end of the padding, or beyond it if < 0."""
    if stride == 1:
        return 0
    if size is None or kernel is None:
        return None
    room = size + begin + end - dilation * (kernel - 1) - 1
    last = -(-room // stride) if ceil else room // stride
    if ceil and last * stride >= size + begin:
        last -= 1
    return room - last * stride


def output_window(node: ir.Node) -> Window:
    """Return the window that a transposed convolution slides over its output.

    Raises: UnsupportedError if nothing shows how many axes there are.
    """
    kernel, strides, dilations = _slide(node)
    count = len(kernel)
    extra = _ints(node, "output_padding", [0] * count)
    if "output_shape" not in node.attributes:
        axes = zip(extra, kernel, strides, dilations, strict=True)
        same = [None if k is None else max(0, e + d * (k - 1) + 1 - s) for e, k, s, d in axes]
        return Window(kernel, strides, dilations, _pads(node, same), extra)
    wanted = _ints(node, "output_shape", [])[-count:]
    sizes = _known_dims(node.inputs[0], count)
    totals, rest = [], []
    for out, size, e, k, s, d in zip(wanted, sizes, extra, kernel, strides, dilations, strict=True):
        reached = None if size is None or k is None else s * (size - 1) + d * (k - 1) + 1
        totals.append(None if reached is None else max(0, reached + e - out))
        rest.append(None if reached is None else max(e, out - reached))
    return Window(kernel, strides, dilations, _split(node, totals), tuple(rest))


def sizes(op: Builder, value: ir.Value, window: Window) -> ir.Value:
    """Return the sizes of the axes over which the window slides: a constant if they are known."""
    known = _known_dims(value, len(window.strides))
    return op.Shape(value, start=2) if None in known else op.constant(np.array(known, np.int64))


def input_pads(op: Builder, node: ir.Node, window: Window) -> Pads:
    """Return the padding of an input window at the begins and at the ends, for any sizes."""
    strides = list(window.strides)
    if not is_automatic(node):
        begins, ends = np.split(np.array(explicit_pads(node)), 2)
        ceil = node.attributes.get_int("ceil_mode", 0)
        return op.constant(begins), op.constant(ends + ceil * (np.array(strides) - 1))
    spare = op.Mod(op.Sub(sizes(op, required(node), window), 1), strides)
    return _halves(op, node, op.Max(op.Sub(_span(op, node, window), spare), 0))


def output_pads(op: Builder, node: ir.Node, window: Window) -> Pads:
    """Return the padding of an output window at the begins and at the ends, for any sizes."""
    starts = op.Mul(op.Sub(sizes(op, required(node), window), 1), list(window.strides))
    beyond = [1 + extra for extra in _ints(node, "output_padding", [0] * len(window.strides))]
    reached = op.Add(op.Add(starts, _span(op, node, window)), beyond)
    return _halves(op, node, op.Sub(reached, sizes(op, node.outputs[0], window)))


def _span(op: Builder, node: ir.Node, window: Window) -> ir.Value:
    """Return the distance between the first and the last element that a window reads."""
    if None in window.kernel:
        kernel = sizes(op, required(node, 1), window)
    else:
        kernel = op.constant(np.array(window.kernel, np.int64))
    return op.Mul(op.Sub(kernel, 1), list(window.dilations))


def _halves(op: Builder, node: ir.Node, totals: ir.Value) -> Pads:
    """Split automatic padding in two."""
    smaller = op.Div(totals, 2)
    larger = op.Sub(totals, smaller)
    return (smaller, larger) if _auto_pad(node) == "SAME_UPPER" else (larger, smaller)


def is_automatic(node: ir.Node) -> bool:
    """Tell whether the padding follows from the sizes."""
    return _auto_pad(node) in ("SAME_UPPER", "SAME_LOWER")


def explicit_pads(node: ir.Node) -> tuple[int, ...]:
    """Return the pads that the node asks for in numbers."""
    none = (0,) * (2 * _count(node))
    return none if _auto_pad(node) == "VALID" else _ints(node, "pads", none)


def _pads(node: ir.Node, same: Sequence[Known]) -> tuple[int, ...] | None:
    """Return the node's pads, given how much automatic padding would be on each axis."""
    return _split(node, same) if is_automatic(node) else explicit_pads(node)


def _split(node: ir.Node, totals: Sequence[Known]) -> tuple[int, ...] | None:
    known = [total for total in totals if total is not None]
    if len(known) < len(totals):
        return None
    smaller, larger = [total // 2 for total in known], [total - total // 2 for total in known]
    upper = _auto_pad(node) == "SAME_UPPER"
    return (*smaller, *larger) if upper else (*larger, *smaller)


def _slide(node: ir.Node) -> tuple[tuple[Known, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, strides and dilations."""
    count = _count(node)
    given = tuple(node.attributes.get_ints("kernel_shape", ()))
    kernel = given or _known_dims(optional(node, 1), count)
    return kernel, _ints(node, "strides", [1] * count), _ints(node, "dilations", [1] * count)


def _count(node: ir.Node) -> int:
    for name, per_axis in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 2)):
        if name in node.attributes:
            return len(node.attributes[name].as_ints()) // per_axis
    for value in (*reversed(node.inputs[:2]), node.outputs[0]):
        if value is not None and value.shape is not None:
            return len(value.shape) - 2
    raise UnsupportedError(
        f"Node '{node.name}' ({node.op_type}) has no gradient: neither its attributes nor the "
        "shapes of its inputs tell over how many axes its window slides. "
        "Give it the attribute 'kernel_shape', or declare the shape of an input."
    )


def _ints(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    return tuple(node.attributes.get_ints(name, default) or default)


def _auto_pad(node: ir.Node) -> str:
    return node.attributes.get_string("auto_pad", "NOTSET") or "NOTSET"

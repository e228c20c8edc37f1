"""Where the inference of operators says more than holds, or fails: what to believe instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.constants import known_floats, known_ints
from whileback.graph.scopes import is_standard

__all__ = [
    "defaults_hidden",
    "fill_rank",
    "forget_guesses",
    "infer_rank",
    "is_misjudged",
    "joined",
    "sizes_limited",
]

NewDim = Callable[[], ir.SymbolicDim]
Held = Callable[[ir.Value], Sequence[int | ir.SymbolicDim] | None]

# No tensor has more axes.
MOST_AXES = 64
BROADCASTING = frozenset(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Expand Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor".split()
)


@contextmanager
def defaults_hidden(node: ir.Node) -> Iterator[None]:
    """Hide the defaults of inputs from the inference: the run may be given other values."""
    hidden = [
        (value, value.const_value)
        for value in dict.fromkeys(node.inputs)
        if value is not None and value.is_graph_input()
    ]
    for value, _ in hidden:
        value.const_value = None
    try:
        yield
    finally:
        for value, tensor in hidden:
            value.const_value = tensor


class _TooManySizesError(Exception):
    """A list of integers is too long to stand for the sizes of a tensor."""


@contextmanager
def sizes_limited(context: Any) -> Iterator[None]:
    """Let the inference of one operator make up only so many sizes as a tensor can have.

    It makes one up for each element of a list of integers, even if these are a billion numbers of
    rows. What it has found before that is right. So it is if constants are cast to a type that
    has no such numbers, and cannot be sizes.
    """
    left = iter(range(MOST_AXES))
    make = context.new_symbolic_dim

    def limited() -> ir.SymbolicDim:
        if next(left, None) is None:
            raise _TooManySizesError
        dim: ir.SymbolicDim = make()
        return dim

    context.new_symbolic_dim = limited
    try:
        yield
    except (_TooManySizesError, OverflowError):
        pass
    finally:
        context.new_symbolic_dim = make


def is_misjudged(node: ir.Node) -> bool:
    """Tell whether the inference fails on the node, or takes an unknown rank for a known one."""
    if is_standard(node, "Pad"):
        return _at_run_time(node, 3)
    if is_standard(node, "Expand") or (is_standard(node, "Compress") and "axis" in node.attributes):
        return node.inputs[0] is None or node.inputs[0].shape is None
    return is_standard(node, "Squeeze") and _squeezes_at_run_time(node)


def _squeezes_at_run_time(node: ir.Node) -> bool:
    """Tell whether only the run tells which axes are left out: the inference takes them for 1s."""
    X, axes = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if X is None or X.shape is None or "axes" in node.attributes:
        return False
    return not X.shape.is_static() if axes is None else not known_ints(axes)


def infer_rank(node: ir.Node, new_dim: NewDim) -> None:
    """Give the output of such a node the type and, but for a Squeeze, the rank of its input."""
    X, Y = node.inputs[0], node.outputs[0]
    if X is None:
        return
    Y.type = Y.type or X.type
    if X.shape is not None and Y.shape is None and not is_standard(node, "Squeeze"):
        Y.shape = ir.Shape([new_dim() for _ in X.shape])


def fill_rank(node: ir.Node, new_dim: NewDim) -> None:
    """Give an output of which the inference says nothing the rank that it surely has."""
    Y = node.outputs[0]
    rank = _certain_rank(node) if Y.shape is None else None
    if rank is not None:
        Y.shape = ir.Shape([new_dim() for _ in range(rank)])


def _certain_rank(node: ir.Node) -> int | None:
    if _reduces_all(node):
        return 0
    shapes = [value.shape for value in node.inputs if value is not None]
    if not shapes or any(shape is None for shape in shapes):
        return None
    ranks = [len(shape) for shape in shapes if shape is not None]
    if is_standard(node, "Tile"):
        return ranks[0]
    if is_standard(node, "ConstantOfShape", "Expand"):
        length = shapes[-1][0] if shapes[-1] else None
        if isinstance(length, int) and length <= MOST_AXES:
            return max(length, *ranks[:-1], 0)
    return None


def _reduces_all(node: ir.Node) -> bool:
    """Tell whether the node makes one number of a tensor, whatever rank that has."""
    if not node.op_type.startswith("Reduce") or not is_standard(node, node.op_type):
        return False
    attributes = node.attributes
    named = "axes" in attributes or any(value is not None for value in node.inputs[1:])
    kept = attributes.get_int("keepdims", 1) or attributes.get_int("noop_with_empty_axes", 0)
    return not named and not kept


def forget_guesses(node: ir.Node, new_dim: NewDim, held: Held) -> None:
    """Replace by new symbols what was inferred from arguments that only the run knows.

    Args:
        node: the node, with its outputs inferred.
        new_dim: returns a new symbol.
        held: returns the sizes that a tensor of integers holds, None if they are not known.
    """
    if is_standard(node, "Split") and (_at_run_time(node, 1) or _cannot_split(node)):
        _forget_split_sizes(node, new_dim)
    if is_standard(node, "Slice"):
        _forget_slice_sizes(node, new_dim)
    if is_standard(node, "Unique") and "axis" in node.attributes:  # taken for a flat one
        node.outputs[0].shape = None
        infer_rank(node, new_dim)
    if is_standard(node, "Resize"):
        _forget_resized_sizes(node, new_dim)
    if node.op_type == "ArrayFeatureExtractor":  # which makes a row of a list
        node.outputs[0].shape = None
    if is_standard(node, *BROADCASTING):
        _join_symbols(node, new_dim, held)


def _cannot_split(node: ir.Node) -> bool:
    """Tell whether there is not enough for all parts, as in a branch for other inputs."""
    X, count = node.inputs[0], node.attributes.get_int("num_outputs")
    if X is None or X.shape is None or count is None:
        return False
    length = X.shape[node.attributes.get_int("axis", 0)]
    return isinstance(length, int) and -(-length // count) * (count - 1) > length


def _forget_split_sizes(node: ir.Node, new_dim: NewDim) -> None:
    axis = node.attributes.get_int("axis", 0)
    for output in node.outputs:
        if output.shape is not None:
            dims = list(output.shape)
            dims[axis] = new_dim()
            output.shape = ir.Shape(dims)


def _forget_slice_sizes(node: ir.Node, new_dim: NewDim) -> None:
    """An axis of unknown length may also end before the slice does."""
    X, Y = node.inputs[0], node.outputs[0]
    if X is None or X.shape is None or Y.shape is None:
        return
    at_run_time = _at_run_time(node, 3) or _at_run_time(node, 4)
    Y.shape = ir.Shape(
        [
            new_dim() if at_run_time or (isinstance(n, int) and n and not isinstance(m, int)) else n
            for m, n in zip(X.shape, Y.shape, strict=True)
        ]
    )


def _forget_resized_sizes(node: ir.Node, new_dim: NewDim) -> None:
    """Lengths times scales may be rounded before they are cut off, and a kept ratio rounds them."""
    X, Y = node.inputs[0], node.outputs[0]
    scales = known_floats(node.inputs[2] if len(node.inputs) > 2 else None)
    stretches = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    if X is None or X.shape is None or Y.shape is None or (stretches and not scales):
        return
    dims, axes = list(Y.shape), node.attributes.get_ints("axes", range(len(Y.shape)))
    for index, axis in enumerate(axes):
        if not scales or not _is_cut_off_surely(X.shape[axis], scales[index]):
            dims[axis] = new_dim()
    Y.shape = ir.Shape(dims)


def _is_cut_off_surely(length: int | ir.SymbolicDim, scale: float) -> bool:
    """Tell whether the product is cut off to the same number in FLOAT, as runtimes have it."""
    if isinstance(length, int):
        return math.floor(length * scale) == int(np.float32(length) * np.float32(scale))
    return scale.is_integer()


def _join_symbols(node: ir.Node, new_dim: NewDim, held: Held) -> None:
    """Where two different symbols meet, either may be 1: the result is the larger one.

    It is called `max(A,B)`, whatever the order in which they meet.
    """
    output = node.outputs[0]
    shapes: list[Any] = [value.shape for value in node.inputs if value is not None]
    if is_standard(node, "Expand"):
        shapes[1:] = [held(value) for value in node.inputs[1:] if value is not None]
    if output.shape is None or any(shape is None for shape in shapes):
        return
    dims = list(output.shape)
    for back in range(1, len(dims) + 1):
        met = {shape[-back] for shape in shapes if shape is not None and len(shape) >= back}
        symbols = {str(dim.value) for dim in met if not isinstance(dim, int)}
        if len(symbols) > 1 and not isinstance(dims[-back], int):
            parts = sorted({part for symbol in symbols for part in joined(symbol)})
            plain = all(part.isidentifier() for part in parts)
            dims[-back] = ir.SymbolicDim(f"max({','.join(parts)})") if plain else new_dim()
    output.shape = ir.Shape(dims)


def joined(symbol: str) -> list[str]:
    """Return the symbols of which one with this name is the largest: itself, or several.

    >>> joined("max(A,B)"), joined("N + 1")
    (['A', 'B'], ['N + 1'])
    """
    parts = symbol[4:-1].split(",")
    if symbol.startswith("max(") and all(part.isidentifier() for part in parts):
        return parts
    return [symbol]


def _at_run_time(node: ir.Node, index: int) -> bool:
    """Tell whether the node has this input, and only the run tells what it is."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value is not None and known_ints(value) is None

"""Where the inference of operators says more than holds, or fails: what to believe instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import onnx_ir as ir

from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard

__all__ = ["defaults_hidden", "forget_guesses", "infer_rank", "is_misjudged"]

NewDim = Callable[[], ir.SymbolicDim]


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


def is_misjudged(node: ir.Node) -> bool:
    """Tell whether the inference fails on the node, or takes an unknown rank for a known one."""
    if is_standard(node, "Pad"):
        return _at_run_time(node, 3)
    if is_standard(node, "Expand") or (is_standard(node, "Compress") and "axis" in node.attributes):
        return node.inputs[0] is None or node.inputs[0].shape is None
    return False


def infer_rank(node: ir.Node, new_dim: NewDim) -> None:
    """Give the output of such a node the type and the rank of its first input."""
    X, Y = node.inputs[0], node.outputs[0]
    if X is None:
        return
    Y.type = Y.type or X.type
    if X.shape is not None and Y.shape is None:
        Y.shape = ir.Shape([new_dim() for _ in X.shape])


def forget_guesses(node: ir.Node, new_dim: NewDim) -> None:
    """Replace by new symbols what was inferred from arguments that only the run knows."""
    if is_standard(node, "Split") and _at_run_time(node, 1):
        _forget_split_sizes(node, new_dim)
    if is_standard(node, "Slice"):
        _forget_slice_sizes(node, new_dim)


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


def _at_run_time(node: ir.Node, index: int) -> bool:
    """Tell whether the node has this input, and only the run tells what it is."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value is not None and known_ints(value) is None

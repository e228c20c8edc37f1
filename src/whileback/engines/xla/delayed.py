"""What a loop reads row by row is computed row by row, in the loop.

A gradient computes once for all trips what needs no cotangent, as `1 − y²` of all rows of y. Where
that is only read by the loop that follows, a few sums and products there cost less than another
stack: it would be written, read, and spread over cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.rows import Array, Rows
from whileback.graph.scopes import is_standard, loop_view, walk

__all__ = ["Delayed", "delay", "find_delayed"]

_CHEAP = ("Add", "Sub", "Mul", "Neg")


@dataclass(frozen=True)
class Delayed:
    """A stack that is not computed yet: each row by the node, of the same rows of `stacks`.

    `operands` has the operands of the node; those in the places of `stacks` are stacks.
    """

    node: ir.Node
    operands: tuple[Any, ...]
    stacks: tuple[int, ...]

    @property
    def source(self) -> Array | Rows:
        """A stack of which this one has the rows."""
        first = self.operands[self.stacks[0]]
        return first.source if isinstance(first, Delayed) else first

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a stack of which this one has the rows."""
        return tuple(self.source.shape)


def delay(node: ir.Node, operands: Sequence[Any]) -> Delayed | None:
    """Return what the node computes as a delayed stack; None if its rows cannot be told apart."""
    if not all(isinstance(each, (np.ndarray, jax.Array, Rows, Delayed)) for each in operands):
        return None
    ranks = [len(each.shape) for each in operands]
    places = tuple(place for place, rank in enumerate(ranks) if rank == max(ranks) > 0)
    sources = [_source(operands[place]) for place in places]
    if not sources or not all(_is_alike(each, sources[0]) for each in sources):
        return None
    return Delayed(node, tuple(operands), places)


def _source(stack: Any) -> Any:
    return stack.source if isinstance(stack, Delayed) else stack


def _is_alike(stack: Any, other: Any) -> bool:
    """Tell whether two stacks, of which there is something in the program, have the same rows."""
    if isinstance(stack, np.ndarray) or stack.shape[0] != other.shape[0] or not stack.shape[0]:
        return False
    counts = [each.count if isinstance(each, Rows) else None for each in (stack, other)]
    return counts[0] is counts[1]


def find_delayed(graph: ir.Graph) -> set[ir.Node]:
    """Find the nodes whose stacks nothing but one loop reads, row by row."""
    return {node for node in walk(graph) if _is_delayed(node)}


def _is_delayed(node: ir.Node) -> bool:
    if not is_standard(node, *_CHEAP):
        return False
    (output,) = node.outputs
    uses = list(output.uses())
    if len(uses) != 1 or output.is_graph_output() or uses[0].node.graph is not node.graph:
        return False
    reader = uses[0].node
    return _is_delayed(reader) or any(stack is output for stack in _read(reader))


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the stacks of which a loop reads the rows along their first axis."""
    if is_standard(node, "Scan"):
        yield from (read.stack for read in loop_view(node).scan_inputs if read.axis == 0)

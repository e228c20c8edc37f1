"""Loops that the user says are iterations to a solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.gradient.memory.naming import by_loop
from whileback.gradient.rules.controlflow.implicit import Mark, set_mark
from whileback.graph.scopes import loop_view
from whileback.graph.shapes import FLOATS, describe
from whileback.graph.tape import Tape, note_tape
from whileback.signatures import require_types

__all__ = ["Implicit", "ImplicitLoops", "implicit", "mark_implicit"]


@dataclass(frozen=True)
class Implicit:
    """How a loop is differentiated at its solution; made by `implicit`."""

    carry: str
    tolerance: float = 1e-6
    trips: int = 1000


ImplicitLoops = Mapping[str, str | Implicit] | None


def implicit(carry: str, tolerance: float = 1e-6, trips: int = 1000) -> Implicit:
    """Return that a loop iterates a carried value to a solution, and is differentiated there.

    Args:
        carry: the value, by its name before or after a trip, or after the loop.
        tolerance: the equation of the gradient is iterated until the sum of a change's absolute
            values is at most so much of that of the cotangent.
        trips: it is left after so many trips anyway.

    Raises:
        ArgumentError: a negative tolerance, or no trips.

    >>> implicit("z", tolerance=1e-4)
    Implicit(carry='z', tolerance=0.0001, trips=1000)
    """
    require_types(implicit, locals())
    if not tolerance >= 0:
        raise ArgumentError(f"implicit(tolerance={tolerance!r}): give a number from 0 on.")
    if not isinstance(trips, int) or trips < 1:
        raise ArgumentError(f"implicit(trips={trips!r}): give a whole number from 1 on.")
    return Implicit(carry, float(tolerance), trips)


def mark_implicit(loops: Sequence[ir.Node], given: ImplicitLoops) -> None:
    """Mark those of a model's loops, in normal form, that are differentiated at their solution.

    Raises:
        ArgumentError: an unknown loop or carried value, or one that is no tensor of floats.
    """
    for node, meant in by_loop(loops, given or {}, "implicit").items():
        said = meant if isinstance(meant, Implicit) else Implicit(meant)
        set_mark(node, Mark(_index(node, said.carry), said.tolerance, said.trips))
        strategy = f"implicit, as asked for: differentiated where '{said.carry}' stays"
        note_tape(node, Tape(strategy))


def _index(node: ir.Node, name: str) -> int:
    """Return which of a loop's carried values has that name."""
    carries = loop_view(node).carries
    known = {
        value.name: index
        for index, carry in enumerate(carries)
        for value in (carry.input, carry.output, carry.result)
    }
    if name not in known:
        hint = nearest(name, [str(each) for each in known]) if known else "it carries nothing"
        raise ArgumentError(
            f"implicit= names '{name}', but loop '{node.name}' carries no such value; {hint}"
        )
    value = carries[known[name]].input
    if value.dtype not in FLOATS or not isinstance(value.type, ir.TensorType):
        raise ArgumentError(
            f"implicit= names '{name}' of loop '{node.name}', which is {describe(value)}: only a "
            "tensor of floats is iterated to a solution. Name another one."
        )
    return known[name]

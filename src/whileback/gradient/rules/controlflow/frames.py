"""What a trip keeps for its reverse trip, and what is computed again: whatever costs least."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.changes import Change
from whileback.gradient.rules.controlflow.choice import cheapest
from whileback.gradient.rules.controlflow.prices import IMPOSSIBLE, Prices, Terms
from whileback.gradient.rules.controlflow.reasons import reason
from whileback.graph.scopes import captures, definitions

__all__ = ["PLAN", "Frames", "Plan", "choose_frames", "residuals"]

# Where a loop's node has its `Plan`, among its `meta`.
PLAN = "whileback.plan"


def residuals(gradient: ir.Graph, forward: ir.Graph) -> list[ir.Value]:
    """Return the values of the forward graph that the gradient graph reads, in forward order."""
    read = set(captures(gradient))
    return [value for value in definitions(forward) if value in read]


@dataclass(frozen=True)
class Plan:
    """What is done with a loop: loops put around its trips, whether its body runs again, why."""

    levels: int
    recompute: bool
    reason: str


@dataclass(frozen=True)
class Frames:
    """How the way back has the values that it reads.

    Attributes:
        kept: values to keep, and why.
        again: nodes that run again in every trip back.
        outside: nodes that run again once.
        undone: changes of carried values to undo.
    """

    kept: dict[ir.Value, str]
    again: list[ir.Node]
    outside: list[ir.Node]
    undone: list[Change]


def choose_frames(
    op: GradientBuilder, body: ir.Graph, needed: list[ir.Value], terms: Terms
) -> Frames:
    """Decide, for all that the way back reads, what is kept and what is computed again.

    Args:
        op: knows what is drawn.
        body: the forward body.
        needed: its values that the backward body reads, in forward order.
        terms: what is there anyway, and what must not be kept.

    Raises:
        UnsupportedError: if the shape of what is drawn at random changes from trip to trip.
    """
    prices = Prices(op, body, terms)
    prices.explore(needed)
    choice = cheapest(needed, prices.keeping, prices.makers, prices.steps)
    again = [node for node in body if node in choice.again]
    for node in again:
        if prices.steps[node].cost >= IMPOSSIBLE:
            raise UnsupportedError(_cannot_keep_draws(node))
    kept = [v for v in definitions(body) if v in choice.kept and v not in terms.given]
    for value in kept:
        _check_draw(value, prices)
    return Frames(
        {value: reason(value, prices, choice) for value in kept},
        [node for node in again if node not in prices.fixed],
        [node for node in again if node in prices.fixed],
        [change for change in terms.undoable if change in choice.again],
    )


def _check_draw(value: ir.Value, prices: Prices) -> None:
    node = value.producer()
    if node is not None and prices.is_drawn(value) and value in prices.terms.varying:
        raise UnsupportedError(_cannot_keep_draws(node))


def _cannot_keep_draws(node: ir.Node) -> str:
    return (
        f"Node '{node.name}' ({node.op_type}) draws random numbers inside a loop, and the way back "
        "cannot keep them, since their shape changes from trip to trip. Draw as many numbers in "
        "every trip, or draw before the loop and pass the numbers in."
    )

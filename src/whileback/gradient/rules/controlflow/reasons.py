"""Why a value is kept, and what is said of that at its loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from whileback.gradient.rules.controlflow.changes import Change
from whileback.gradient.rules.controlflow.choice import Choice
from whileback.gradient.rules.controlflow.costs import known_bytes
from whileback.gradient.rules.controlflow.prices import Again, Prices
from whileback.graph.shapes import describe
from whileback.graph.tape import Row, Tape

__all__ = ["reason", "tape"]

ANYWAY = "the loop gives it out anyway"


def reason(value: ir.Value, prices: Prices, choice: Choice[ir.Value, Again]) -> str:
    """Return why a value is kept."""
    if value in prices.terms.written:
        return ANYWAY
    if prices.is_drawn(value):
        return "drawn at random"
    if value in prices.deciding:
        return "decides something, and may come out otherwise when computed again"
    if value not in prices.makers:
        return "carried into the trip"
    return f"computing it again would {_dearest(value, prices, choice)}"


def _dearest(value: ir.Value, prices: Prices, choice: Choice[ir.Value, Again]) -> str:
    """Return what costs most in computing a value again, up to where that is too much."""
    costs: dict[ir.Value | Again, int] = {}
    pending = [value]
    while pending and sum(costs.values()) <= prices.keeping[value]:
        each = pending.pop(0)
        maker = prices.makers.get(each)
        if maker is None:
            costs[each] = prices.keeping[each]
        elif maker not in costs:
            costs[maker] = prices.steps[maker].cost
            pending += [v for v in prices.steps[maker].reads if _is_missing(v, prices, choice)]
    most = max(costs, key=costs.__getitem__)
    if isinstance(most, Change):
        return f"undo what the trip does to {most.carry.input.name}"
    if isinstance(most, ir.Node):
        return f"run {most.op_type}"
    return f"need {most.name} {describe(most)}"


def _is_missing(value: ir.Value, prices: Prices, choice: Choice[ir.Value, Again]) -> bool:
    """Tell whether the way back does not have the value in any case."""
    if value not in prices.keeping or value in choice.kept:
        return False
    return prices.makers.get(value) not in choice.again


def tape(
    strategy: str,
    kept: Mapping[ir.Value, str],
    hard: Collection[ir.Value] = (),
    undone: Collection[ir.Value] = (),
) -> Tape:
    """Return what is said at a loop of what a trip keeps.

    Args:
        strategy: what is done with the loop, and why.
        kept: the values, and why each is kept.
        hard: those that are filled up to one size.
        undone: values that are not kept, but carried back.
    """
    sizes = [known_bytes(value) for value, why in kept.items() if why != ANYWAY]
    rows = [
        _row(value, f"{why}{', filled up to the largest of any trip' if value in hard else ''}")
        for value, why in kept.items()
    ]
    rows += [
        _row(value, "not kept, but copied in every trip of the way back", kept=False)
        for value in undone
    ]
    total = None if None in sizes else sum(filter(None, sizes))
    return Tape(strategy, tuple(rows), total)


def _row(value: ir.Value, why: str, kept: bool = True) -> Row:
    return Row(str(value.name), describe(value), why, known_bytes(value), kept)

"""Gradients of several calls, added up before a step is made with their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.shapes import static_shape
from whileback.training.differentiated import Differentiated

__all__ = ["accumulated", "check_calls"]

Values = dict[ir.Value, ir.Value]
Emit = Callable[[Builder, Mapping[ir.Value, ir.Value]], Values]


def check_calls(calls: int) -> None:
    """Refuse what is no number of calls."""
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ArgumentError(f"accumulate={calls!r} is no number of calls. Give a whole one from 1.")


def accumulated(work: Differentiated, calls: int, kept: list[ir.Value], emit: Emit) -> Values:
    """Return what becomes of what is kept between calls of which every k-th one makes a step.

    An `If` makes it, or adds the gradients to the sums `<parameter>_sum`; `accumulated` tells of
    how many these are.

    Args:
        work: gets the sums and the count.
        calls: k, above 1.
        kept: the values that `emit` gives others.
        emit: a step, given the mean of the gradients.
    """
    op = work.op
    count = work.keep("accumulated", np.array(0))
    sums = {w: _sum(work, w) for w in work.parameters}
    op.role, op.origin = "accumulate", ir.node("Accumulate", [], name=str(count.name))
    made = op.Add(count, 1)
    full = op.Equal(made, calls)
    order = [*kept, count, *sums.values()]

    def totals(side: Builder) -> Values:
        return {w: side.Add(sums[w], slope) for w, slope in work.parameters.items()}

    def step(side: Builder) -> list[ir.Value]:
        slopes = {w: side.Mul(total, 1.0 / calls) for w, total in totals(side).items()}
        following = emit(side, slopes)
        following |= {value: side.zeros_like(value) for value in (count, *sums.values())}
        return [following[value] for value in order]

    def wait(side: Builder) -> list[ir.Value]:
        added = {sums[w]: total for w, total in totals(side).items()} | {count: made}
        return [added.get(value, value) for value in order]

    return dict(zip(order, op.either(full, step, wait), strict=True))


def _sum(work: Differentiated, w: ir.Value) -> ir.Value:
    shape, dtype = static_shape(w), w.dtype
    assert shape is not None and dtype is not None
    return work.keep(f"{w.name}_sum", np.zeros(shape, dtype.numpy()))

"""What a step makes of parameters, once it has their gradients."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.shapes import static_shape
from whileback.training.average import averaged
from whileback.training.clipping import Clipping
from whileback.training.differentiated import Differentiated
from whileback.training.groups import Rule
from whileback.training.optimizers import Clock, State

__all__ = ["Updates"]


class Updates:
    """The inputs that optimizers read, and how to emit what becomes of those that are kept.

    Args:
        work: gets the inputs `learning_rate`, `steps` if anything depends on that, the state of the
            optimizers, and the averages.
        rules: for each name of a parameter.
        clipping: of the gradients.
        average: the decay of the moving averages of the parameters; None for none of these.
    """

    def __init__(
        self,
        work: Differentiated,
        rules: Mapping[str, Rule],
        clipping: Clipping,
        average: float | None,
    ) -> None:
        self.rules = {w: rules[str(w.name)] for w in work.parameters}
        self.clipping, self.average = clipping, average
        self.rate = work.input("learning_rate", ir.DataType.FLOAT, ())
        counted = any(rule.optimizer.needs_number for rule in rules.values())
        counted |= average is not None
        self.steps = work.keep("steps", np.array(0)) if counted else None
        self.states = {w: _state(work, w, rule) for w, rule in self.rules.items()}
        averages = [] if average is None else work.parameters
        self.averages = {w: work.keep(f"{w.name}_average", _first(w)) for w in averages}

    @property
    def kept(self) -> list[ir.Value]:
        """The values that `emit` gives another value."""
        steps = [] if self.steps is None else [self.steps]
        states = [value for state in self.states.values() for value in state.values()]
        return [*self.rules, *steps, *states, *self.averages.values()]

    def emit(self, op: Builder, slopes: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Emit one step, given the gradient of each parameter; return what each becomes."""
        following: dict[ir.Value, ir.Value] = {}
        number = self.rate
        if self.steps is not None:
            op.role, op.origin = "count", ir.node("Steps", [], name=str(self.steps.name))
            following[self.steps] = op.Add(self.steps, 1)
            number = op.cast(following[self.steps], ir.DataType.DOUBLE)
        for w, g in self.clipping.apply(op, slopes).items():
            rule, before = self.rules[w], self.states[w]
            op.role, op.origin = rule.optimizer.name, ir.node("Parameter", [], name=str(w.name))
            rate = self.rate if rule.rate == 1 else op.Mul(self.rate, float(rule.rate))
            following[w], after = rule.optimizer.apply(op, w, g, before, Clock(rate, number))
            following |= {before[part]: value for part, value in after.items()}
        for w, average in self.averages.items():
            assert self.average is not None
            op.role, op.origin = "average", ir.node("Parameter", [], name=str(w.name))
            following[average] = averaged(op, average, following[w], self.average, number)
        return following


def _first(w: ir.Value) -> np.ndarray:
    """Return what a parameter is before the first step."""
    assert w.const_value is not None
    return w.const_value.numpy()


def _state(work: Differentiated, w: ir.Value, rule: Rule) -> State:
    shape, dtype = static_shape(w), w.dtype
    assert shape is not None and dtype is not None
    optimizer = rule.optimizer
    return {
        part: work.keep(f"{w.name}_{part}", np.full(size, optimizer.initial, dtype.numpy()))
        for part, size in optimizer.shapes(shape).items()
    }

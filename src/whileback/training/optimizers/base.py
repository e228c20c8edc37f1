"""What an optimizer is: an update with its state, and weight decay around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder

__all__ = [
    "Clock",
    "Optimizer",
    "Shape",
    "State",
    "check_betas",
    "check_range",
    "no_state",
    "of_its_shape",
    "running_mean",
]

Shape = tuple[int, ...]
State = dict[str, ir.Value]
Update = Callable[[Builder, ir.Value, ir.Value, State, "Clock"], tuple[ir.Value, State]]


@dataclass(frozen=True)
class Clock:
    """What a step is told from outside: the rate FLOAT[], and its number DOUBLE[], 1 at first.

    What depends on the number alone is computed in DOUBLE: in FLOAT, 1 - 0.999 has four digits.
    """

    rate: ir.Value
    number: ir.Value

    def rate_as(self, op: Builder, like: ir.Value) -> ir.Value:
        """Return the rate in the type of a parameter."""
        return op.cast(self.rate, like)

    def unbiasing(self, op: Builder, beta: float) -> ir.Value:
        """Return 1 - βᵗ, by which a mean over t steps that began with 0 is divided; DOUBLE[]."""
        return op.Sub(1.0, op.Pow(op.constant(np.float64(beta)), self.number))


def no_state(shape: Shape) -> Mapping[str, Shape]:
    """Return the shapes of a state that keeps nothing."""
    return {}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its settings, as `sgd(momentum=0.9)` and its like return it.

    Attributes:
        name: what it is called in the table.
        update: makes of parameter, gradient, state and clock what is taken off the parameter,
            and the next state.
        shapes: the shapes of what is kept for a parameter of a shape, by name.
        initial: what all elements of the state are at first.
        weight_decay: the factor λ.
        decoupled: whether decay is taken off the parameter, rate·λ·w, or is added to the
            gradient, g + λ·w.
        needs_number: whether `update` reads the number of the step.

    Raises: ArgumentError for a weight decay below 0.
    """

    name: str
    update: Update
    shapes: Callable[[Shape], Mapping[str, Shape]] = no_state
    initial: float = 0.0
    weight_decay: float = 0.0
    decoupled: bool = False
    needs_number: bool = False

    def __post_init__(self) -> None:
        """Refuse a weight decay that is none."""
        check_range(self.name, "weight_decay", self.weight_decay, math.inf)

    def apply(
        self, op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        """Emit one step for a parameter, with its weight decay; return the next parameter."""
        left, decay = w, self.weight_decay
        if decay and self.decoupled:
            left = op.Mul(w, op.Sub(1.0, op.Mul(clock.rate_as(op, w), decay)))
        elif decay:
            g = op.Add(g, op.Mul(w, decay))
        change, after = self.update(op, w, g, state, clock)
        return op.Sub(left, change), after


def running_mean(op: Builder, mean: ir.Value, new: ir.Value, beta: float) -> ir.Value:
    """Return β·mean + (1 - β)·new."""
    return op.Add(op.Mul(mean, beta), op.Mul(new, 1.0 - beta))


def of_its_shape(*names: str) -> Callable[[Shape], Mapping[str, Shape]]:
    """Return the shapes of a state whose parts have the parameter's own."""
    return lambda shape: dict.fromkeys(names, shape)


def check_betas(name: str, betas: Sequence[float]) -> None:
    """Refuse betas outside of 0 ≤ β < 1."""
    for beta in betas:
        check_range(name, "betas", beta, 1.0)


def check_range(name: str, setting: str, value: float, limit: float) -> None:
    """Refuse a setting of an optimizer outside of 0 ≤ value < limit."""
    if not 0 <= value < limit:
        bound = "" if limit == math.inf else f" and below {limit:g}"
        raise ArgumentError(f"{name}({setting}=…) has {value!r}; give a number from 0{bound}.")

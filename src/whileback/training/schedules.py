"""Schedules: by what the learning rate is multiplied in which step. The table `SCHEDULES` has them.

The rate is an input of a step, so that these are functions of plain numbers. Each gives a factor
to the rate that a run begins with, or, where it first rises, to the largest one. Steps count from
0: in step n, n steps have been made. Behind its end, a schedule stays at its last factor.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whileback.errors import ArgumentError, nearest
from whileback.signatures import require_types

__all__ = [
    "SCHEDULES",
    "Schedule",
    "constant",
    "cosine",
    "cosine_restarts",
    "exponential",
    "linear",
    "one_cycle",
    "plateau",
    "polynomial",
    "schedule_named",
    "step_decay",
    "warmup",
]


@dataclass(frozen=True)
class Schedule:
    """A schedule with its settings, as `cosine(1000)` and its like return it.

    Attributes:
        name: what it is called in the table.
        factor: of the number of a step, from 0.
    """

    name: str
    factor: Callable[[int], float]

    def __call__(self, step: int) -> float:
        """Return the factor to the learning rate in a step, of which the first is number 0.

        Raises: ArgumentError for a step below 0.
        """
        if step < 0:
            raise ArgumentError(f"step={step!r} is below 0. Steps count from 0.")
        return self.factor(step)


def constant() -> Schedule:
    """Return 1."""
    return Schedule("constant", lambda step: 1.0)


def linear(steps: int, start: float = 1.0, end: float = 0.0) -> Schedule:
    """Return what goes evenly from `start` to `end` in so many steps, and stays there.

    As PyTorch's `LinearLR`.

    Raises: ArgumentError for steps that are not above 0.

    >>> [linear(4)(step) for step in (0, 1, 4, 5)]
    [1.0, 0.75, 0.0, 0.0]
    """
    _check_above("linear", steps=steps)
    return Schedule("linear", lambda step: start + (end - start) * min(step / steps, 1.0))


def step_decay(every: int | Sequence[int], gamma: float = 0.1) -> Schedule:
    """Return what is multiplied by γ after so many steps each, or at the steps of a list.

    As PyTorch's `StepLR` and `MultiStepLR`.

    Raises: ArgumentError for a number of steps that is not above 0.

    >>> [step_decay([2, 4], gamma=0.5)(step) for step in (1, 2, 3, 4)]
    [1.0, 0.5, 0.5, 0.25]
    """
    if not isinstance(every, int):
        places = sorted(every)
        return Schedule("step", lambda step: gamma ** bisect_right(places, step))
    _check_above("step", every=every)
    return Schedule("step", lambda step: gamma ** (step // every))


def exponential(gamma: float) -> Schedule:
    """Return γⁿ in step n. As PyTorch's `ExponentialLR`."""
    return Schedule("exponential", lambda step: gamma**step)


def polynomial(steps: int, power: float = 1.0, end: float = 0.0) -> Schedule:
    """Return end + (1 - end)·(1 - n/steps)^power. As PyTorch's `PolynomialLR`, whose end is 0.

    Raises: ArgumentError for steps or a power that are not above 0.
    """
    _check_above("polynomial", steps=steps, power=power)
    return Schedule(
        "polynomial",
        lambda step: end + (1 - end) * (1 - min(step / steps, 1.0)) ** power,
    )


def cosine(steps: int, end: float = 0.0) -> Schedule:
    """Return half a wave of a cosine from 1 to `end`. As PyTorch's `CosineAnnealingLR` to its end.

    Raises: ArgumentError for steps that are not above 0.

    Source: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts,
    arXiv:1608.03983.

    >>> [round(cosine(4)(step), 3) for step in (0, 1, 2, 3, 4, 5)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """
    _check_above("cosine", steps=steps)
    return Schedule("cosine", lambda step: _half_wave(1.0, end, min(step / steps, 1.0)))


def cosine_restarts(steps: int, growth: int = 1, end: float = 0.0) -> Schedule:
    """Return half waves from 1 to `end`, the first so long, each next one `growth` times as long.

    As PyTorch's `CosineAnnealingWarmRestarts`.

    Raises: ArgumentError for steps that are not above 0, or a growth below 1.

    Source: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts,
    arXiv:1608.03983.
    """
    _check_above("cosine-restarts", steps=steps, growth=growth)

    def factor(step: int) -> float:
        length = steps
        while step >= length and growth > 1:
            step, length = step - length, length * growth
        return _half_wave(1.0, end, step % length / length)

    return Schedule("cosine-restarts", factor)


def one_cycle(
    steps: int,
    rise: float = 0.3,
    divide: float = 25.0,
    final_divide: float = 1e4,
    anneal: Literal["cosine", "linear"] = "cosine",
) -> Schedule:
    """Return what rises from 1/divide to 1 in a part `rise` of the steps, then falls below that.

    It ends in step number steps - 1 at 1/divide/final_divide. As PyTorch's `OneCycleLR` with
    `cycle_momentum=False`; the rate that it multiplies is the largest one.

    Raises: ArgumentError for steps or divisors that are not above 0, a part outside of 0 to 1, or
    another curve.

    Source: Smith and Topin, Super-convergence, arXiv:1708.07120.
    """
    _check_above("one-cycle", steps=steps, divide=divide, final_divide=final_divide)
    if not 0 <= rise <= 1:
        raise ArgumentError(f"one-cycle has rise={rise!r}. Give a part from 0 to 1.")
    if anneal not in ("cosine", "linear"):
        raise ArgumentError(f"one-cycle has anneal={anneal!r}. Give 'cosine' or 'linear'.")
    curve = _half_wave if anneal == "cosine" else _line
    top, last = rise * steps - 1, float(steps - 1)

    def factor(step: int) -> float:
        if step <= top and top > 0:
            return curve(1 / divide, 1.0, step / top)
        share = (step - top) / (last - top) if last > top else 1.0
        return curve(1.0, 1 / divide / final_divide, min(share, 1.0))

    return Schedule("one-cycle", factor)


def warmup(steps: int, then: Schedule, start: float = 0.0) -> Schedule:
    """Return what goes evenly from `start` to 1 in so many steps, and then as another one does.

    As PyTorch's `SequentialLR` of a `LinearLR` and another one.

    Raises: ArgumentError for steps that are not above 0.

    >>> [warmup(2, linear(4))(step) for step in (0, 1, 2, 3, 6)]
    [0.0, 0.5, 1.0, 0.75, 0.0]
    """
    first = linear(steps, start, 1.0)
    return Schedule(then.name, lambda step: first(step) if step < steps else then(step - steps))


def plateau(
    metrics: Sequence[float],
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    mode: Literal["min", "max"] = "min",
    cooldown: int = 0,
    smallest: float = 0.0,
) -> float:
    """Return the factor to the rate, given what was measured so far, such as losses of epochs.

    It is multiplied by `factor` when more than `patience` measurements in a row were not better
    than the best one by a part `threshold` of it; the `cooldown` next ones do not count. As
    PyTorch's `ReduceLROnPlateau`, as a function of the past.

    Raises: ArgumentError for a factor outside of 0 < factor < 1, or another mode.

    >>> plateau([3.0, 2.0, 2.0, 2.0], patience=1)
    0.1
    """
    if not 0 < factor < 1:
        raise ArgumentError(f"plateau has factor={factor!r}. Give one above 0 and below 1.")
    if mode not in ("min", "max"):
        raise ArgumentError(f"plateau has mode={mode!r}. Give 'min' or 'max'.")
    sign = 1.0 if mode == "min" else -1.0
    best, bad, resting, result = math.inf, 0, 0, 1.0
    for metric in (sign * each for each in metrics):
        better = best == math.inf or metric < best - threshold * abs(best)
        best, bad = (metric, 0) if better else (best, bad + 1)
        if resting > 0:
            resting, bad = resting - 1, 0
        if bad > patience:
            result, resting, bad = max(result * factor, smallest), cooldown, 0
    return result


def _half_wave(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def _check_above(name: str, **settings: float) -> None:
    for setting, value in settings.items():
        if not value > 0:
            raise ArgumentError(f"{name} has {setting}={value!r}. Give a number above 0.")


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": constant,
    "linear": linear,
    "step": step_decay,
    "exponential": exponential,
    "polynomial": polynomial,
    "cosine": cosine,
    "cosine-restarts": cosine_restarts,
    "one-cycle": one_cycle,
}


def schedule_named(name: str, *, warmup_steps: int = 0, **settings: Any) -> Schedule:
    """Return a schedule by its name, behind so many steps of a warmup.

    Raises: ArgumentError for an unknown name, a setting that it has not, and one that lacks.

    >>> schedule_named("cosine", steps=100, warmup_steps=10)(5)
    0.5
    """
    require_types(schedule_named, locals())
    if not isinstance(name, str) or name not in SCHEDULES:
        hint = nearest(name if isinstance(name, str) else "", SCHEDULES)
        raise ArgumentError(f"schedule={name!r} is unknown; {hint}")
    known = inspect.signature(SCHEDULES[name]).parameters
    for setting in settings:
        if setting not in known:
            raise ArgumentError(
                f"Schedule {name!r} has no setting {setting!r}; {nearest(setting, known)}"
            )
    for setting, parameter in known.items():
        if parameter.default is parameter.empty and setting not in settings:
            raise ArgumentError(f"Schedule {name!r} needs {setting}=, which is not given.")
    chosen = SCHEDULES[name](**settings)
    return warmup(warmup_steps, chosen) if warmup_steps else chosen

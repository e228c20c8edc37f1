"""Optimizers: what a step makes of a parameter, its gradient and what is kept between steps.

Each is a function of (parameter, gradient, state, rate) to (parameter, state), in plain operators
of ONNX, with the arithmetic of PyTorch; the table `OPTIMIZERS` has them by name. Weight decay,
which all of them do in one of two ways, is no part of them: see `Optimizer.apply`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.training.named import from_table

__all__ = [
    "OPTIMIZERS",
    "Clock",
    "Optimizer",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "lion",
    "optimizer_named",
    "rmsprop",
    "sgd",
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


def _no_state(shape: Shape) -> Mapping[str, Shape]:
    return {}


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its settings, as `sgd(momentum=0.9)` and its like return it.

    Attributes:
        name: what it is called in the table.
        update: makes of parameter, gradient, state and clock the next parameter and state.
        shapes: the shapes of what is kept for a parameter of a shape, by name.
        initial: what all elements of the state are at first.
        weight_decay: the factor λ.
        decoupled: whether decay is taken off the parameter, rate·λ·w, or is added to the
            gradient, g + λ·w.
        needs_number: whether `update` reads the number of the step.
    """

    name: str
    update: Update
    shapes: Callable[[Shape], Mapping[str, Shape]] = _no_state
    initial: float = 0.0
    weight_decay: float = 0.0
    decoupled: bool = False
    needs_number: bool = False

    def apply(
        self, op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        """Emit one step for a parameter, with its weight decay."""
        decay = self.weight_decay
        if not decay:
            return self.update(op, w, g, state, clock)
        if not self.decoupled:
            return self.update(op, w, op.Add(g, op.Mul(w, decay)), state, clock)
        changed, after = self.update(op, w, g, state, clock)
        lost = op.Mul(w, op.Mul(clock.rate_as(op, w), decay))
        return op.Sub(changed, lost), after


def _mean(op: Builder, mean: ir.Value, new: ir.Value, beta: float) -> ir.Value:
    """Return β·mean + (1 - β)·new."""
    return op.Add(op.Mul(mean, beta), op.Mul(new, 1.0 - beta))


def _kept(*names: str) -> Callable[[Shape], Mapping[str, Shape]]:
    """Return the shapes of a state whose parts have the parameter's own."""
    return lambda shape: dict.fromkeys(names, shape)


def sgd(
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Return gradient descent: m' = μ·m + (1 - dampening)·g, w' = w - rate·m'; m' = g at first.

    With `nesterov`, w' = w - rate·(g + μ·m').

    Raises: ArgumentError for `nesterov` without momentum, or with dampening.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning,
    2013; as PyTorch has it.
    """
    _check_range("sgd", "momentum", momentum, math.inf)
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ArgumentError(
            f"sgd(nesterov=True) needs momentum above 0 and no dampening, but momentum={momentum} "
            f"and dampening={dampening}. Change them, or leave nesterov out."
        )

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        if not momentum:
            return op.Sub(w, op.Mul(clock.rate_as(op, w), g)), {}
        share: ir.Value | None = None
        if dampening:
            first = op.Equal(clock.number, 1.0)
            shares = (op.constant(each, w.dtype) for each in (1.0, 1.0 - dampening))
            share = op.Where(first, *shares)
        m = op.Add(op.Mul(state["momentum"], momentum), op.Mul(g, share) if share else g)
        direction = op.Add(g, op.Mul(m, momentum)) if nesterov else m
        return op.Sub(w, op.Mul(clock.rate_as(op, w), direction)), {"momentum": m}

    return Optimizer(
        "sgd",
        update,
        _kept("momentum") if momentum else _no_state,
        weight_decay=weight_decay,
        needs_number=bool(momentum and dampening),
    )


def adam(
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0
) -> Optimizer:
    """Return Adam: m, v are running means of g, g²; w' = w - rate·m̂/(√v̂ + ε) for m̂ = m/(1 - βᵗ).

    Weight decay is added to the gradient; for the decoupled one see `adamw`.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980.
    """
    return _adam("adam", betas, eps, weight_decay, decoupled=False)


def adamw(
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01
) -> Optimizer:
    """Return Adam with decoupled weight decay: rate·λ·w is taken off w.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv:1711.05101.
    """
    return _adam("adamw", betas, eps, weight_decay, decoupled=True)


def _adam(
    name: str, betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool
) -> Optimizer:
    _check_betas(name, betas)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        m = _mean(op, state["mean"], g, betas[0])
        v = _mean(op, state["square"], op.Mul(g, g), betas[1])
        # m̂/(√v̂ + ε) as √(1 - β₂ᵗ)/(1 - β₁ᵗ)·m/(√v + ε·√(1 - β₂ᵗ)): the factors are numbers.
        spread = op.Sqrt(clock.unbiasing(op, betas[1]))
        rate = op.Mul(op.cast(clock.rate, ir.DataType.DOUBLE), spread)
        size = op.cast(op.Div(rate, clock.unbiasing(op, betas[0])), w)
        root = op.Add(op.Sqrt(v), op.cast(op.Mul(spread, eps), w))
        change = op.Mul(size, op.Div(m, root))
        return op.Sub(w, change), {"mean": m, "square": v}

    kept = _kept("mean", "square")
    return Optimizer(
        name, update, kept, weight_decay=weight_decay, decoupled=decoupled, needs_number=True
    )


def adagrad(
    rate_decay: float = 0.0, initial: float = 0.0, eps: float = 1e-10, weight_decay: float = 0.0
) -> Optimizer:
    """Return Adagrad: s' = s + g², w' = w - rate/(1 + (t - 1)·rate_decay)·g/(√s' + ε).

    `initial` is what s begins with.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning, 2011.
    """

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        rate = clock.rate_as(op, w)
        if rate_decay:
            slower = op.Add(op.Mul(op.Sub(clock.number, 1.0), rate_decay), 1.0)
            rate = op.Div(rate, op.cast(slower, w))
        s = op.Add(state["sum"], op.Mul(g, g))
        change = op.Div(g, op.Add(op.Sqrt(s), eps))
        return op.Sub(w, op.Mul(rate, change)), {"sum": s}

    return Optimizer(
        "adagrad",
        update,
        _kept("sum"),
        initial=initial,
        weight_decay=weight_decay,
        needs_number=bool(rate_decay),
    )


def rmsprop(
    alpha: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Return RMSprop: s is a running mean of g², w' = w - rate·g/(√s + ε).

    `centered` takes √(s - m²) for a running mean m of g; `momentum` carries
    b' = μ·b + g/(√s + ε), and w' = w - rate·b'.

    Source: Hinton, Neural networks for machine learning, lecture 6e; centered: Graves,
    arXiv:1308.0850.
    """
    _check_range("rmsprop", "alpha", alpha, 1.0)
    names = ["square", *["mean"][: int(centered)], *["momentum"][: int(momentum > 0)]]

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        new = {"square": _mean(op, state["square"], op.Mul(g, g), alpha)}
        variance = new["square"]
        if centered:
            new["mean"] = _mean(op, state["mean"], g, alpha)
            variance = op.Sub(variance, op.Mul(new["mean"], new["mean"]))
        change = op.Div(g, op.Add(op.Sqrt(variance), eps))
        if momentum:
            change = new["momentum"] = op.Add(op.Mul(state["momentum"], momentum), change)
        return op.Sub(w, op.Mul(clock.rate_as(op, w), change)), new

    return Optimizer("rmsprop", update, _kept(*names), weight_decay=weight_decay)


def lion(betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> Optimizer:
    """Return Lion: w' = w·(1 - rate·λ) - rate·sign(β₁·m + (1 - β₁)·g), m' = β₂·m + (1 - β₂)·g.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1.

    Source: Chen et al., Symbolic discovery of optimization algorithms, arXiv:2302.06675.
    """
    _check_betas("lion", betas)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        direction = op.Sign(_mean(op, state["mean"], g, betas[0]))
        m = _mean(op, state["mean"], g, betas[1])
        return op.Sub(w, op.Mul(clock.rate_as(op, w), direction)), {"mean": m}

    return Optimizer("lion", update, _kept("mean"), weight_decay=weight_decay, decoupled=True)


def adafactor(
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Return Adafactor: g²'s running mean V as a product of its rows' and its columns' means.

    With ρ = min(rate, 1/√t), β = 1 - t^beta2_decay and u = g/√V: w' = w - max(ε₂, rms w)·ρ·u /
    max(1, rms(u)/d). A vector keeps V as it is. ε₁ is by default the type's own.

    Raises: ArgumentError for d below 1.

    Keeps: `row` [..., n, 1] and `column` [..., 1, m] for a parameter [..., n, m], else `square`.

    Source: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory cost,
    arXiv:1804.04235, with the rate as an upper bound, as PyTorch has it.
    """
    if d < 1:
        raise ArgumentError(f"adafactor(d=…) has {d!r}; give a number from 1.")

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        smallest = eps[0] if eps[0] is not None else float(np.finfo(_numpy(w)).eps)
        share = op.cast(op.Pow(clock.number, op.constant(np.float64(beta2_decay))), w)
        rate = op.Min(op.cast(clock.rate, ir.DataType.DOUBLE), _reciprocal_root(op, clock.number))
        scale = op.Mul(op.cast(rate, w), op.Max(_rms(op, w), eps[1]))
        square = op.Mul(g, g)
        if "square" in state:
            new = {"square": _towards(op, state["square"], square, share)}
            V = new["square"]
        else:
            row = _towards(op, state["row"], op.ReduceMean(square, [-1]), share)
            column = _towards(op, state["column"], op.ReduceMean(square, [-2]), share)
            total = op.Max(op.ReduceMean(row, [-2]), smallest)
            new, V = {"row": row, "column": column}, op.Div(op.MatMul(row, column), total)
        u = op.Div(g, op.Sqrt(op.Max(V, smallest * smallest)))
        limit = op.Max(op.Div(_rms(op, u), d), 1.0)
        return op.Sub(w, op.Mul(op.Div(scale, limit), u)), new

    return Optimizer(
        "adafactor",
        update,
        _factors,
        weight_decay=weight_decay,
        decoupled=True,
        needs_number=True,
    )


def _factors(shape: Shape) -> Mapping[str, Shape]:
    if len(shape) < 2:
        return {"square": shape}
    return {"row": (*shape[:-1], 1), "column": (*shape[:-2], 1, shape[-1])}


def _towards(op: Builder, mean: ir.Value, new: ir.Value, share: ir.Value) -> ir.Value:
    """Return mean + share·(new - mean)."""
    return op.Add(mean, op.Mul(share, op.Sub(new, mean)))


def _rms(op: Builder, value: ir.Value) -> ir.Value:
    return op.Sqrt(op.ReduceMean(op.Mul(value, value), keepdims=0))


def _reciprocal_root(op: Builder, number: ir.Value) -> ir.Value:
    return op.Reciprocal(op.Sqrt(number))


def _numpy(value: ir.Value) -> np.dtype:
    assert value.dtype is not None
    return value.dtype.numpy()


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adamw,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "lion": lion,
    "adafactor": adafactor,
}


def optimizer_named(optimizer: str | Optimizer) -> Optimizer:
    """Return an optimizer, by its name with the settings that PyTorch gives it by default.

    Raises: ArgumentError for an unknown name.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    return from_table("optimizer", optimizer, OPTIMIZERS)


def _check_betas(name: str, betas: Sequence[float]) -> None:
    for beta in betas:
        _check_range(name, "betas", beta, 1.0)


def _check_range(name: str, setting: str, value: float, limit: float) -> None:
    if not 0 <= value < limit:
        bound = "" if limit == math.inf else f" and below {limit:g}"
        raise ArgumentError(f"{name}({setting}=…) has {value!r}; give a number from 0{bound}.")

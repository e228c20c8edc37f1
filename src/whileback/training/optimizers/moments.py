"""Running means of gradients and of their squares: Adam and its relatives."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.signatures import require_types
from whileback.training.optimizers.base import (
    Clock,
    Optimizer,
    Shape,
    State,
    check_betas,
    check_range,
    of_its_shape,
    running_mean,
)

__all__ = ["adam", "adamax", "adamw", "nadam", "radam"]


Betas = tuple[float, float]


def adam(
    betas: Betas = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> Optimizer:
    """Return Adam: m, v are running means of g, g²; w' = w - rate·m̂/(√v̂ + ε) for m̂ = m/(1 - βᵗ).

    Weight decay is added to the gradient; for the decoupled one see `adamw`. With `amsgrad`, the
    largest v so far is taken for v.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1, and for ε < 0.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980; amsgrad:
    Reddi, Kale and Kumar, On the convergence of Adam and beyond, arXiv:1904.09237.
    """
    require_types(adam, locals())
    return _adam("adam", betas, eps, weight_decay, amsgrad, decoupled=False)


def adamw(
    betas: Betas = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
) -> Optimizer:
    """Return Adam with decoupled weight decay: rate·λ·w is taken off w.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1, and for ε < 0.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv:1711.05101.
    """
    require_types(adamw, locals())
    return _adam("adamw", betas, eps, weight_decay, amsgrad, decoupled=True)


def _adam(
    name: str, betas: Betas, eps: float, weight_decay: float, amsgrad: bool, decoupled: bool
) -> Optimizer:
    check_betas(name, betas)
    check_range(name, "eps", eps, math.inf)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        new = _moments(op, g, state, betas)
        v = new["square"]
        if amsgrad:
            v = new["largest"] = op.Max(state["largest"], v)
        # m̂/(√v̂ + ε) as √(1 - β₂ᵗ)/(1 - β₁ᵗ)·m/(√v + ε·√(1 - β₂ᵗ)): the factors are numbers.
        spread = op.Sqrt(clock.unbiasing(op, betas[1]))
        rate = op.Mul(clock.rate_as(op, clock.number), spread)
        size = op.cast(op.Div(rate, clock.unbiasing(op, betas[0])), w)
        return op.Mul(size, op.Div(new["mean"], _root(op, v, spread, eps))), new

    state = of_its_shape("mean", "square", *["largest"][: int(amsgrad)])
    return Optimizer(
        name, update, state, weight_decay=weight_decay, decoupled=decoupled, needs_number=True
    )


def _moments(op: Builder, g: ir.Value, state: State, betas: Betas) -> State:
    """Return the next running means of the gradient and of its square."""
    m = running_mean(op, state["mean"], g, betas[0])
    v = running_mean(op, state["square"], op.Mul(g, g), betas[1])
    return {"mean": m, "square": v}


def _root(op: Builder, v: ir.Value, spread: ir.Value, eps: float) -> ir.Value:
    """Return (√v̂ + ε)·√(1 - β₂ᵗ), where the latter is the `spread`."""
    return op.Add(op.Sqrt(v), op.cast(op.Mul(spread, eps), v))


def adamax(betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0) -> Optimizer:
    """Return Adamax: m is a running mean of g, u' = max(β₂·u, |g| + ε), w' = w - rate·m̂/u'.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1, and for ε < 0.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, section 7.
    """
    require_types(adamax, locals())
    check_betas("adamax", betas)
    check_range("adamax", "eps", eps, math.inf)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        m = running_mean(op, state["mean"], g, betas[0])
        u = op.Max(op.Mul(state["largest"], betas[1]), op.Add(op.Abs(g), eps))
        rate = clock.rate_as(op, clock.number)
        size = op.cast(op.Div(rate, clock.unbiasing(op, betas[0])), w)
        return op.Mul(size, op.Div(m, u)), {"mean": m, "largest": u}

    state = of_its_shape("mean", "largest")
    return Optimizer("adamax", update, state, weight_decay=weight_decay, needs_number=True)


def nadam(
    betas: Betas = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
) -> Optimizer:
    """Return Adam with Nesterov's momentum, which grows: μₜ = β₁·(1 - 0.96^(t·ψ)/2), ψ its decay.

    With c' = 1 - μ₁·…·μₜ: w' = w - rate·((1 - μₜ)/c'·g + μₜ₊₁/(1 - (1 - c')·μₜ₊₁)·m)/(√v̂ + ε).

    Keeps: besides `mean` and `square`, the number `weight`, which is c.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1, and for ε < 0.

    Source: Dozat, Incorporating Nesterov momentum into Adam, 2016; as PyTorch has it.
    """
    require_types(nadam, locals())
    check_betas("nadam", betas)
    check_range("nadam", "eps", eps, math.inf)

    def momentum(op: Builder, number: ir.Value) -> ir.Value:
        shrunk = op.Pow(op.constant(np.float64(0.96**momentum_decay)), number)
        return op.Mul(op.Sub(1.0, op.Mul(shrunk, 0.5)), betas[0])

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        new = _moments(op, g, state, betas)
        now, soon = (momentum(op, op.Add(clock.number, later)) for later in (0.0, 1.0))
        lacking = op.Mul(op.Sub(1.0, op.cast(state["weight"], now)), now)
        weight = op.Sub(1.0, lacking)
        spread = op.Sqrt(clock.unbiasing(op, betas[1]))
        rate = op.Mul(clock.rate_as(op, clock.number), spread)
        ahead = op.Div(op.Mul(rate, op.Sub(1.0, now)), weight)
        behind = op.Div(op.Mul(rate, soon), op.Sub(1.0, op.Mul(lacking, soon)))
        direction = op.Add(op.Mul(g, op.cast(ahead, w)), op.Mul(new["mean"], op.cast(behind, w)))
        new["weight"] = op.cast(weight, w)
        return op.Div(direction, _root(op, new["square"], spread, eps)), new

    def state(shape: Shape) -> Mapping[str, Shape]:
        return {"mean": shape, "square": shape, "weight": ()}

    return Optimizer("nadam", update, state, weight_decay=weight_decay, needs_number=True)


def radam(betas: Betas = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0) -> Optimizer:
    """Return rectified Adam: w' = w - rate·r·m̂/(√v̂ + ε), and while ρ ≤ 5, w' = w - rate·m̂.

    ρ∞ = 2/(1 - β₂) - 1, ρ = ρ∞ - 2·t·β₂ᵗ/(1 - β₂ᵗ), and r² = (ρ - 4)·(ρ - 2)·ρ∞ /
    ((ρ∞ - 4)·(ρ∞ - 2)·ρ).

    Raises: ArgumentError for betas outside of 0 ≤ β < 1, and for ε < 0.

    Source: Liu et al., On the variance of the adaptive learning rate and beyond, arXiv:1908.03265.
    """
    require_types(radam, locals())
    check_betas("radam", betas)
    check_range("radam", "eps", eps, math.inf)
    longest = 2 / (1 - betas[1]) - 1

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        new = _moments(op, g, state, betas)
        unbiasing = clock.unbiasing(op, betas[1])
        shrunk = op.Div(op.Mul(clock.number, op.Sub(1.0, unbiasing)), unbiasing)
        length = op.Sub(longest, op.Mul(shrunk, 2.0))
        known = op.Greater(length, 5.0)
        length = op.Where(known, length, 5.0)
        product = op.Mul(op.Sub(length, 4.0), op.Sub(length, 2.0))
        square = op.Div(product, op.Mul(length, (longest - 4) * (longest - 2) / longest))
        spread = op.Sqrt(unbiasing)
        rectified = op.Mul(op.Sqrt(square), spread)
        scaled = op.Div(op.cast(rectified, w), _root(op, new["square"], spread, eps))
        rate = op.Div(clock.rate_as(op, clock.number), clock.unbiasing(op, betas[0]))
        size = op.Mul(op.cast(rate, w), op.Where(known, scaled, 1.0))
        return op.Mul(size, new["mean"]), new

    state = of_its_shape("mean", "square")
    return Optimizer("radam", update, state, weight_decay=weight_decay, needs_number=True)

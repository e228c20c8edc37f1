"""Steps divided by the size that gradients have had: Adagrad, Adadelta, RMSprop."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.signatures import require_types
from whileback.training.optimizers.base import (
    Clock,
    Optimizer,
    State,
    check_range,
    of_its_shape,
    running_mean,
)

__all__ = ["adadelta", "adagrad", "rmsprop"]


def adagrad(
    rate_decay: float = 0.0, initial: float = 0.0, eps: float = 1e-10, weight_decay: float = 0.0
) -> Optimizer:
    """Return Adagrad: s' = s + g², w' = w - rate/(1 + (t - 1)·rate_decay)·g/(√s' + ε).

    `initial` is what s begins with.

    Raises: ArgumentError for a setting below 0.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning, 2011.
    """
    require_types(adagrad, locals())
    for setting, value in {"rate_decay": rate_decay, "initial": initial, "eps": eps}.items():
        check_range("adagrad", setting, value, math.inf)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        rate = clock.rate_as(op, w)
        if rate_decay:
            slower = op.Add(op.Mul(op.Sub(clock.number, 1.0), rate_decay), 1.0)
            rate = op.Div(rate, op.cast(slower, w))
        s = op.Add(state["sum"], op.Mul(g, g))
        change = op.Div(g, op.Add(op.Sqrt(s), eps))
        return op.Mul(rate, change), {"sum": s}

    return Optimizer(
        "adagrad",
        update,
        of_its_shape("sum"),
        initial=initial,
        weight_decay=weight_decay,
        needs_number=bool(rate_decay),
    )


def adadelta(rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0) -> Optimizer:
    """Return Adadelta: s, d are running means of g², u²; u = √(d + ε)/√(s' + ε)·g, w' = w - rate·u.

    Raises: ArgumentError for ρ outside of 0 ≤ ρ < 1, and for ε < 0.

    Source: Zeiler, Adadelta: an adaptive learning rate method, arXiv:1212.5701.
    """
    require_types(adadelta, locals())
    check_range("adadelta", "rho", rho, 1.0)
    check_range("adadelta", "eps", eps, math.inf)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        s = running_mean(op, state["square"], op.Mul(g, g), rho)
        roots = (op.Sqrt(op.Add(value, eps)) for value in (state["change"], s))
        u = op.Mul(op.Div(*roots), g)
        d = running_mean(op, state["change"], op.Mul(u, u), rho)
        return op.Mul(clock.rate_as(op, w), u), {"square": s, "change": d}

    state = of_its_shape("square", "change")
    return Optimizer("adadelta", update, state, weight_decay=weight_decay)


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

    Raises: ArgumentError for α outside of 0 ≤ α < 1, and for another setting below 0.

    Source: Hinton, Neural networks for machine learning, lecture 6e; centered: Graves,
    arXiv:1308.0850.
    """
    require_types(rmsprop, locals())
    check_range("rmsprop", "alpha", alpha, 1.0)
    check_range("rmsprop", "eps", eps, math.inf)
    check_range("rmsprop", "momentum", momentum, math.inf)
    names = ["square", *["mean"][: int(centered)], *["momentum"][: int(momentum > 0)]]

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        new = {"square": running_mean(op, state["square"], op.Mul(g, g), alpha)}
        variance = new["square"]
        if centered:
            new["mean"] = running_mean(op, state["mean"], g, alpha)
            variance = op.Sub(variance, op.Mul(new["mean"], new["mean"]))
        change = op.Div(g, op.Add(op.Sqrt(variance), eps))
        if momentum:
            change = new["momentum"] = op.Add(op.Mul(state["momentum"], momentum), change)
        return op.Mul(clock.rate_as(op, w), change), new

    return Optimizer("rmsprop", update, of_its_shape(*names), weight_decay=weight_decay)

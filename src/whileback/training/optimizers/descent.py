"""Steps along the gradient, or along its sign, with momentum."""

from __future__ import annotations

import math

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.signatures import require_types
from whileback.training.optimizers.base import (
    Clock,
    Optimizer,
    State,
    check_betas,
    check_range,
    no_state,
    of_its_shape,
    running_mean,
)

__all__ = ["lion", "sgd"]


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
    require_types(sgd, locals())
    check_range("sgd", "momentum", momentum, math.inf)
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ArgumentError(
            f"sgd(nesterov=True) needs momentum above 0 and no dampening, but momentum={momentum} "
            f"and dampening={dampening}. Change them, or leave nesterov out."
        )

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        if not momentum:
            return op.Mul(clock.rate_as(op, w), g), {}
        share: ir.Value | None = None
        if dampening:
            first = op.Equal(clock.number, 1.0)
            shares = (op.constant(each, w.dtype) for each in (1.0, 1.0 - dampening))
            share = op.Where(first, *shares)
        m = op.Add(op.Mul(state["momentum"], momentum), op.Mul(g, share) if share else g)
        direction = op.Add(g, op.Mul(m, momentum)) if nesterov else m
        return op.Mul(clock.rate_as(op, w), direction), {"momentum": m}

    return Optimizer(
        "sgd",
        update,
        of_its_shape("momentum") if momentum else no_state,
        weight_decay=weight_decay,
        needs_number=bool(momentum and dampening),
    )


def lion(betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> Optimizer:
    """Return Lion: w' = w·(1 - rate·λ) - rate·sign(β₁·m + (1 - β₁)·g), m' = β₂·m + (1 - β₂)·g.

    Raises: ArgumentError for betas outside of 0 ≤ β < 1.

    Source: Chen et al., Symbolic discovery of optimization algorithms, arXiv:2302.06675.
    """
    require_types(lion, locals())
    check_betas("lion", betas)

    def update(
        op: Builder, w: ir.Value, g: ir.Value, state: State, clock: Clock
    ) -> tuple[ir.Value, State]:
        direction = op.Sign(running_mean(op, state["mean"], g, betas[0]))
        m = running_mean(op, state["mean"], g, betas[1])
        return op.Mul(clock.rate_as(op, w), direction), {"mean": m}

    return Optimizer(
        "lion", update, of_its_shape("mean"), weight_decay=weight_decay, decoupled=True
    )

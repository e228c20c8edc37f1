"""One step of the optimizers of `ai.onnx.preview.training`, for any number of tensors at once.

The tensors X are followed by as many gradients G and as many of each state.
Source: https://github.com/onnx/onnx/blob/main/docs/Operators.md#aionnxpreviewtraining
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition

__all__: list[str] = []

_DOMAIN = "ai.onnx.preview.training"


@definition(_DOMAIN, "Adagrad")
def adagrad(
    op: Builder, node: ir.Node, R: ir.Value, T: ir.Value, *tensors: ir.Value
) -> list[ir.Value]:
    """H' = H + (G + n·X)², X' = X - R/(1 + T·decay)·(G + n·X)/(√H' + ε)."""
    like = tensors[0]
    decay = node.attributes["decay_factor"].as_float()
    epsilon = node.attributes["epsilon"].as_float()
    rate = op.Div(op.cast(R, like), op.Add(op.Mul(op.cast(T, like), decay), 1.0))

    def step(X: ir.Value, G: ir.Value, H: ir.Value) -> tuple[ir.Value, ...]:
        G = _regularized(op, node, X, G)
        H_new = op.Add(H, op.Mul(G, G))
        change = op.Div(op.Mul(rate, G), op.Add(_root(op, H_new), epsilon))
        return op.Sub(X, change), H_new

    return _each(step, tensors, 3)


@definition(_DOMAIN, "Adam")
def adam(
    op: Builder, node: ir.Node, R: ir.Value, T: ir.Value, *tensors: ir.Value
) -> list[ir.Value]:
    """V' = αV + (1 - α)G, H' = βH + (1 - β)G², X' = (1 - p)(X - r·V'/(√H' + ε)) for G + n·X as G.

    Where T > 0, r is R·√(1 - βᵀ)/(1 - αᵀ), else R.
    """
    alpha = node.attributes["alpha"].as_float()
    beta = node.attributes["beta"].as_float()
    epsilon = node.attributes["epsilon"].as_float()
    kept = 1 - node.attributes["norm_coefficient_post"].as_float()
    rate = op.Mul(op.cast(R, tensors[0]), op.cast(_unbiasing(op, T, alpha, beta), tensors[0]))

    def step(X: ir.Value, G: ir.Value, V: ir.Value, H: ir.Value) -> tuple[ir.Value, ...]:
        G = _regularized(op, node, X, G)
        V_new = op.Add(op.Mul(V, alpha), op.Mul(G, 1 - alpha))
        H_new = op.Add(op.Mul(H, beta), op.Mul(op.Mul(G, G), 1 - beta))
        change = op.Div(op.Mul(rate, V_new), op.Add(_root(op, H_new), epsilon))
        return op.Mul(op.Sub(X, change), kept), V_new, H_new

    return _each(step, tensors, 4)


@definition(_DOMAIN, "Momentum")
def momentum(
    op: Builder, node: ir.Node, R: ir.Value, T: ir.Value, *tensors: ir.Value
) -> list[ir.Value]:
    """V' = αV + b·G, X' = X - R·V', or X - R·(G + αV') of Nesterov, for G + n·X as G.

    At first, where T is 0, b is 1, else β.
    """
    alpha = node.attributes["alpha"].as_float()
    rate = op.cast(R, tensors[0])
    nesterov = node.attributes["mode"].as_string() == "nesterov"
    factors = (
        op.constant(each, tensors[0].dtype) for each in (node.attributes["beta"].as_float(), 1)
    )
    beta = op.Where(op.Greater(T, 0), *factors)

    def step(X: ir.Value, G: ir.Value, V: ir.Value) -> tuple[ir.Value, ...]:
        G = _regularized(op, node, X, G)
        V_new = op.Add(op.Mul(V, alpha), op.Mul(beta, G))
        direction = op.Add(G, op.Mul(V_new, alpha)) if nesterov else V_new
        return op.Sub(X, op.Mul(rate, direction)), V_new

    return _each(step, tensors, 3)


def _each(
    step: Callable[..., Iterable[ir.Value]], tensors: tuple[ir.Value, ...], kinds: int
) -> list[ir.Value]:
    """Return all new tensors, then all of each new state."""
    count = len(tensors) // kinds
    steps = [step(*tensors[index::count]) for index in range(count)]
    return [new for kind in zip(*steps, strict=True) for new in kind]


def _regularized(op: Builder, node: ir.Node, X: ir.Value, G: ir.Value) -> ir.Value:
    """Return G + n·X, the gradient with that of n/2·‖X‖²."""
    norm = node.attributes["norm_coefficient"].as_float()
    return op.Add(op.Mul(X, norm), G) if norm else G


def _root(op: Builder, H: ir.Value) -> ir.Value:
    """Return √H, by a way that passes nothing at 0, where what a step divides has no slope in H."""
    nothing = op.Equal(H, 0.0)
    zero, one = (op.constant(number, H.dtype) for number in (0, 1))
    return op.Where(nothing, zero, op.Sqrt(op.Where(nothing, one, H)))


def _unbiasing(op: Builder, T: ir.Value, alpha: float, beta: float) -> ir.Value:
    """Return √(1 - βᵀ)/(1 - αᵀ) in DOUBLE, since digits cancel, and 1 before the first step."""
    steps = op.cast(op.Max(T, 1), ir.DataType.DOUBLE)
    left = [op.Sub(1.0, op.Pow(op.constant(base), steps)) for base in (beta, alpha)]
    one = op.constant(1, ir.DataType.DOUBLE)
    return op.Where(op.Greater(T, 0), op.Div(op.Sqrt(left[0]), left[1]), one)

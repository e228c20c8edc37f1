"""The activation functions that recurrent operators name in their attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import GraphError, nearest
from whileback.gradient.backward import GradientBuilder

__all__ = ["Activation", "activations"]


@dataclass(frozen=True)
class Activation:
    """One activation function with its parameters; knows its value and its slope."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def slope_needs_argument(self) -> bool:
        """Tell whether the slope is not known from the value alone."""
        return self.name not in ("Sigmoid", "Tanh", "Relu")

    def value(self, op: GradientBuilder, z: ir.Value) -> ir.Value:
        """Return the function's value at z."""
        return _FUNCTIONS[self.name].value(op, self, z)

    def slope(self, op: GradientBuilder, z: ir.Value, y: ir.Value) -> ir.Value:
        """Return the derivative at z, where the value is y."""
        return _FUNCTIONS[self.name].slope(op, self, z, y)


@dataclass(frozen=True)
class _Function:
    """How to emit a function and its derivative; defaults where it has parameters."""

    value: Callable[[GradientBuilder, Activation, ir.Value], ir.Value]
    slope: Callable[[GradientBuilder, Activation, ir.Value, ir.Value], ir.Value]
    alpha: float | None = None
    beta: float | None = None


def _where(op: GradientBuilder, condition: ir.Value, like: ir.Value, slope: float) -> ir.Value:
    """Return the slope where the condition holds, else 0; a piecewise constant."""
    return op.Mul(op.Cast(condition, to=int(like.dtype or ir.DataType.FLOAT)), slope)


def _inside(op: GradientBuilder, y: ir.Value) -> ir.Value:
    return op.And(op.Greater(y, 0.0), op.Less(y, 1.0))


def _scaled_tanh_slope(op: GradientBuilder, f: Activation, z: ir.Value) -> ir.Value:
    inner = op.Tanh(op.Mul(z, f.beta))
    return op.Mul(op.Sub(1.0, op.Mul(inner, inner)), f.alpha * f.beta)


def _elu_slope(op: GradientBuilder, f: Activation, z: ir.Value, y: ir.Value) -> ir.Value:
    return op.Where(op.Less(z, 0.0), op.Add(y, f.alpha), op.constant(1.0, z.dtype))


def _leaky_slope(op: GradientBuilder, f: Activation, z: ir.Value) -> ir.Value:
    sides = op.constant(f.alpha, z.dtype), op.constant(1.0, z.dtype)
    return op.Where(op.Less(z, 0.0), *sides)


def _softsign_slope(op: GradientBuilder, z: ir.Value) -> ir.Value:
    root = op.Reciprocal(op.Add(op.Abs(z), 1.0))
    return op.Mul(root, root)


# At a kink the slope is that of the operator of the same name: 0 for Relu, HardSigmoid and
# ThresholdedRelu, 1 for LeakyRelu and Elu.
_FUNCTIONS = {
    "Sigmoid": _Function(
        lambda op, f, z: op.Sigmoid(z), lambda op, f, z, y: op.Sub(y, op.Mul(y, y))
    ),
    "Tanh": _Function(lambda op, f, z: op.Tanh(z), lambda op, f, z, y: op.Sub(1.0, op.Mul(y, y))),
    "Relu": _Function(
        lambda op, f, z: op.Relu(z), lambda op, f, z, y: _where(op, op.Greater(y, 0.0), z, 1.0)
    ),
    "Affine": _Function(
        lambda op, f, z: op.Add(op.Mul(z, f.alpha), f.beta),
        lambda op, f, z, y: op.expand(op.constant(f.alpha, z.dtype), z),
        alpha=0.0,
        beta=0.0,
    ),
    "LeakyRelu": _Function(
        lambda op, f, z: op.LeakyRelu(z, alpha=f.alpha),
        lambda op, f, z, y: _leaky_slope(op, f, z),
        alpha=0.01,
    ),
    "ThresholdedRelu": _Function(
        lambda op, f, z: op.ThresholdedRelu(z, alpha=f.alpha),
        lambda op, f, z, y: _where(op, op.Greater(z, f.alpha), z, 1.0),
        alpha=0.0,
    ),
    "ScaledTanh": _Function(
        lambda op, f, z: op.Mul(op.Tanh(op.Mul(z, f.beta)), f.alpha),
        lambda op, f, z, y: _scaled_tanh_slope(op, f, z),
        alpha=0.0,
        beta=0.0,
    ),
    "HardSigmoid": _Function(
        lambda op, f, z: op.HardSigmoid(z, alpha=f.alpha, beta=f.beta),
        lambda op, f, z, y: _where(op, _inside(op, y), z, f.alpha),
        alpha=0.2,
        beta=0.5,
    ),
    "Elu": _Function(
        lambda op, f, z: op.Elu(z, alpha=f.alpha),
        _elu_slope,
        alpha=1.0,
    ),
    "Softsign": _Function(
        lambda op, f, z: op.Softsign(z), lambda op, f, z, y: _softsign_slope(op, z)
    ),
    "Softplus": _Function(lambda op, f, z: op.Softplus(z), lambda op, f, z, y: op.Sigmoid(z)),
}
_NAMES = {name.lower(): name for name in _FUNCTIONS}


def activations(node: ir.Node, defaults: tuple[str, ...], directions: int) -> list[Activation]:
    """Return the node's activation functions, those of one direction after the other.

    Parameters are taken from `activation_alpha` and `activation_beta` in the order of the
    functions that have them; where these lists end, ONNX Runtime's defaults hold.

    Raises:
        GraphError: a name is not one that ONNX lists.
    """
    given = node.attributes.get("activations")
    names = list(given.as_strings()) if given else list(defaults) * directions
    alphas, betas = (
        iter(node.attributes.get_floats(f"activation_{each}", ())) for each in ("alpha", "beta")
    )
    return [_activation(node, name, alphas, betas) for name in names]


def _activation(
    node: ir.Node, name: str, alphas: Iterator[float], betas: Iterator[float]
) -> Activation:
    known = _NAMES.get(name.lower())
    if known is None:
        raise GraphError(
            f"Node '{node.name}' ({node.op_type}) names the activation function '{name}', which "
            f"recurrent operators do not have. {nearest(name, _FUNCTIONS)}"
        )
    function = _FUNCTIONS[known]
    alpha = 0.0 if function.alpha is None else next(alphas, function.alpha)
    beta = 0.0 if function.beta is None else next(betas, function.beta)
    return Activation(known, alpha, beta)

"""The activation functions that recurrent operators name in their attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from whileback.errors import GraphError, UnsupportedError, nearest
from whileback.graph.builder import Builder
from whileback.graph.recurrent import DEFAULT_ACTIVATIONS, count_directions

__all__ = ["Activation", "activations"]


@dataclass(frozen=True)
class Activation:
    """One activation function with its parameters: emits its values and its slopes.

    At a kink the slope is that of the operator of the same name: 0 for Relu, HardSigmoid and
    ThresholdedRelu, α for LeakyRelu and Elu.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def slope_needs_argument(self) -> bool:
        """Tell whether the slope is not known from the value alone."""
        return self.name not in ("Relu", "Sigmoid", "Tanh")

    def value(self, op: Builder, z: ir.Value) -> ir.Value:
        """Return the function's value at z."""
        return _FUNCTIONS[self.name].value(op, self, z)

    def slope(self, op: Builder, z: ir.Value, y: ir.Value) -> ir.Value:
        """Return the derivative at z, where the value is y."""
        return _FUNCTIONS[self.name].slope(op, self, z, y)


@dataclass(frozen=True)
class _Function:
    """How to emit a function's value at z, and its slope at z where the value is y.

    `parameters` are the ones it takes, with ONNX Runtime's defaults; None where the ONNX
    specification has another default.
    """

    value: Callable[[Builder, Activation, ir.Value], ir.Value]
    slope: Callable[[Builder, Activation, ir.Value, ir.Value], ir.Value]
    parameters: tuple[tuple[str, float | None], ...] = ()


def _step(op: Builder, condition: ir.Value, like: ir.Value, high: float, low: float) -> ir.Value:
    """Return one of two numbers of the type of `like`, by the condition."""
    return op.Where(condition, op.constant(high, like.dtype), op.constant(low, like.dtype))


def _scaled_tanh_slope(op: Builder, f: Activation, z: ir.Value) -> ir.Value:
    tanh = op.Tanh(op.Mul(z, f.beta))
    return op.Mul(op.Sub(1.0, op.Mul(tanh, tanh)), f.alpha * f.beta)


def _softsign_slope(op: Builder, z: ir.Value) -> ir.Value:
    size = op.Add(op.Abs(z), 1.0)
    return op.Reciprocal(op.Mul(size, size))


def _within_unit(op: Builder, y: ir.Value) -> ir.Value:
    return op.And(op.Greater(y, 0.0), op.Less(y, 1.0))


_FUNCTIONS = {
    "Affine": _Function(
        lambda op, f, z: op.Add(op.Mul(z, f.alpha), f.beta),
        lambda op, f, z, y: op.expand(op.constant(f.alpha, z.dtype), z),
        (("alpha", None), ("beta", None)),
    ),
    "Elu": _Function(
        lambda op, f, z: op.Elu(z, alpha=f.alpha),
        lambda op, f, z, y: op.Where(
            op.Greater(z, 0.0), op.constant(1.0, z.dtype), op.Add(y, f.alpha)
        ),
        (("alpha", 1.0),),
    ),
    "HardSigmoid": _Function(
        lambda op, f, z: op.HardSigmoid(z, alpha=f.alpha, beta=f.beta),
        lambda op, f, z, y: _step(op, _within_unit(op, y), z, f.alpha, 0.0),
        (("alpha", 0.2), ("beta", 0.5)),
    ),
    "LeakyRelu": _Function(
        lambda op, f, z: op.LeakyRelu(z, alpha=f.alpha),
        lambda op, f, z, y: _step(op, op.Greater(z, 0.0), z, 1.0, f.alpha),
        (("alpha", 0.01),),
    ),
    "Relu": _Function(
        lambda op, f, z: op.Relu(z),
        lambda op, f, z, y: _step(op, op.Greater(y, 0.0), y, 1.0, 0.0),
    ),
    "ScaledTanh": _Function(
        lambda op, f, z: op.Mul(op.Tanh(op.Mul(z, f.beta)), f.alpha),
        lambda op, f, z, y: _scaled_tanh_slope(op, f, z),
        (("alpha", None), ("beta", None)),
    ),
    "Sigmoid": _Function(
        lambda op, f, z: op.Sigmoid(z),
        lambda op, f, z, y: op.Sub(y, op.Mul(y, y)),
    ),
    "Softplus": _Function(
        lambda op, f, z: op.Softplus(z),
        lambda op, f, z, y: op.Sigmoid(z),
    ),
    "Softsign": _Function(
        lambda op, f, z: op.Softsign(z),
        lambda op, f, z, y: _softsign_slope(op, z),
    ),
    "Tanh": _Function(
        lambda op, f, z: op.Tanh(z),
        lambda op, f, z, y: op.Sub(1.0, op.Mul(y, y)),
    ),
    "ThresholdedRelu": _Function(
        lambda op, f, z: op.ThresholdedRelu(z, alpha=f.alpha),
        lambda op, f, z, y: _step(op, op.Greater(z, f.alpha), z, 1.0, 0.0),
        (("alpha", None),),
    ),
}
# Runtimes take the names in any case.
_NAMES = {name.lower(): name for name in _FUNCTIONS}


def activations(node: ir.Node) -> list[Activation]:
    """Return the activation functions of an LSTM, GRU or RNN, one direction after the other.

    Each takes the parameters that it has from the front of `activation_alpha` and
    `activation_beta`.

    Raises:
        GraphError: a name is not one that ONNX lists.
        UnsupportedError: a parameter is left out whose default is not the same everywhere.
    """
    defaults = DEFAULT_ACTIVATIONS[node.op_type] * count_directions(node)
    names = node.attributes.get_strings("activations", defaults)
    given = {
        each: iter(node.attributes.get_floats(f"activation_{each}", ()))
        for each in ("alpha", "beta")
    }
    return [_activation(node, name, given) for name in names]


def _activation(node: ir.Node, name: str, given: dict[str, Iterator[float]]) -> Activation:
    known = _NAMES.get(name.lower())
    if known is None:
        raise GraphError(
            f"Node '{node.name}' ({node.op_type}) has the activation function '{name}', which is "
            f"none of those that ONNX lists: {nearest(name, _FUNCTIONS)}"
        )
    parameters = {}
    for parameter, default in _FUNCTIONS[known].parameters:
        value = next(given[parameter], default)
        if value is None:
            raise UnsupportedError(
                f"Node '{node.name}' ({node.op_type}) leaves out the {parameter} of its activation "
                f"function '{known}', for which runtimes have different defaults. State it in "
                f"the attribute 'activation_{parameter}'."
            )
        parameters[parameter] = value
    return Activation(known, **parameters)

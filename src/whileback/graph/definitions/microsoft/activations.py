"""Activations, alone, behind a bias, and those that a product can end in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT

__all__ = ["activated"]


@definition(MICROSOFT, "Gelu")
def gelu(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = X·Φ(X)."""
    return op.Gelu(X)


@definition(MICROSOFT, "BiasGelu")
def bias_gelu(op: Builder, node: ir.Node, A: ir.Value, B: ir.Value) -> ir.Value:
    """Y = Gelu(A + B)."""
    return op.Gelu(op.Add(A, B))


@definition(MICROSOFT, "FastGelu")
def fast_gelu(op: Builder, node: ir.Node, X: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """Y = Gelu(X + bias) by its approximation with tanh."""
    return op.Gelu(X if bias is None else op.Add(X, bias), approximate="tanh")


@definition(MICROSOFT, "QuickGelu")
def quick_gelu(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = X·σ(α·X)."""
    return op.Mul(X, op.Sigmoid(op.Mul(X, node.attributes.get_float("alpha", 1.702))))


@definition(MICROSOFT, "BiasDropout")
def bias_dropout(
    op: Builder,
    node: ir.Node,
    data: ir.Value,
    bias: ir.Value,
    residual: ir.Value | None = None,
    ratio: ir.Value | None = None,
    training: ir.Value | None = None,
) -> Sequence[ir.Value]:
    """Y = Dropout(data + bias) + residual."""
    seed = node.attributes.get_int("seed")
    attributes = {} if seed is None else {"seed": seed}
    inputs = [op.Add(data, bias), ratio, training]
    Y, mask = op.emit("Dropout", inputs, attributes, outputs=2)
    return (Y if residual is None else op.Add(Y, residual)), mask


@definition(MICROSOFT, "BiasSoftmax")
def bias_softmax(op: Builder, node: ir.Node, data: ir.Value, bias: ir.Value) -> ir.Value:
    """Y = softmax(data + bias) over all axes from `axis` on."""
    total, axis = op.Add(data, bias), node.attributes.get_int("axis", 1)
    if axis == -1 or (data.shape is not None and axis == len(data.shape) - 1):
        return op.Softmax(total, axis=-1)
    return op.reshape(op.Softmax(op.Flatten(total, axis=axis), axis=-1), total)


def activated(
    op: Builder, node: ir.Node, Y: ir.Value, parameters: Sequence[float | None]
) -> ir.Value:
    """Return what the activation that a node names makes of its product.

    Raises: UnsupportedError for an unknown one.
    """
    name = node.attributes.get_string("activation", "")
    if name not in _ACTIVATIONS:
        raise UnsupportedError(
            f"Node '{node.name}' ({node.domain}::{node.op_type}) ends in the activation {name!r}, "
            f"which is not known; known are {', '.join(sorted(filter(None, _ACTIVATIONS)))}. Take "
            "them apart in the model."
        )
    return _ACTIVATIONS[name](op, Y, [*parameters, None, None])


Parameters = Sequence[float | None]


def _identity(op: Builder, Y: ir.Value, parameters: Parameters) -> ir.Value:
    return Y


def _plain(op_type: str, *names: str) -> Callable[[Builder, ir.Value, Parameters], ir.Value]:
    """Return the operator with the parameters as attributes, as far as they are given."""

    def emit(op: Builder, Y: ir.Value, parameters: Parameters) -> ir.Value:
        attributes = dict(zip(names, parameters, strict=False))
        return op.emit(op_type, [Y], attributes)[0]

    return emit


def _clip(op: Builder, Y: ir.Value, parameters: Parameters) -> ir.Value:
    low, high = parameters[:2]
    return op.Clip(Y, low, high)


_ACTIVATIONS: dict[str, Callable[[Builder, ir.Value, Parameters], ir.Value]] = {
    "": _identity,
    "Clip": _clip,
    "Elu": _plain("Elu", "alpha"),
    "HardSigmoid": _plain("HardSigmoid", "alpha", "beta"),
    "LeakyRelu": _plain("LeakyRelu", "alpha"),
    "Relu": _plain("Relu"),
    "Sigmoid": _plain("Sigmoid"),
    "Softplus": _plain("Softplus"),
    "Softsign": _plain("Softsign"),
    "Tanh": _plain("Tanh"),
    "ThresholdedRelu": _plain("ThresholdedRelu", "alpha"),
}

"""Expansions of RNN, GRU and LSTM, whose activation functions are made of double kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import onnx_ir as ir

from whileback.checking.expand_elementwise import (
    elu,
    hard_sigmoid,
    leaky_relu,
    softplus,
    softsign,
    thresholded_relu,
)
from whileback.checking.expansion import Expansion
from whileback.graph.builder import Builder
from whileback.graph.recurrent import (
    DEFAULT_ACTIVATIONS,
    Activation,
    count_directions,
    step_by_step,
)

__all__ = ["RNN"]


def _affine(op: Builder, x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return op.Add(op.Mul(x, alpha), beta)


def _scaled_tanh(op: Builder, x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return op.Mul(op.Tanh(op.Mul(x, beta)), alpha)


# Each with the defaults of the parameters that it takes.
_ACTIVATIONS: dict[str, tuple[Callable[..., ir.Value], dict[str, float]]] = {
    "affine": (_affine, {"alpha": 1.0, "beta": 0.0}),
    "elu": (elu, {"alpha": 1.0}),
    "hardsigmoid": (hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (leaky_relu, {"alpha": 0.01}),
    "relu": (lambda op, x: op.Relu(x), {}),
    "scaledtanh": (_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": (lambda op, x: op.Sigmoid(x), {}),
    "softplus": (softplus, {}),
    "softsign": (softsign, {}),
    "tanh": (lambda op, x: op.Tanh(x), {}),
    "thresholdedrelu": (thresholded_relu, {"alpha": 1.0}),
}


def _activations(node: ir.Node) -> list[Activation]:
    """Return the activations of all directions; each takes its parameters from the lists."""
    default = DEFAULT_ACTIVATIONS[node.op_type] * count_directions(node)
    names = node.attributes.get_strings("activations", default)
    lists = {
        kind: iter(node.attributes.get_floats(f"activation_{kind}", []))
        for kind in ("alpha", "beta")
    }
    found: list[Activation] = []
    for name in names:
        function, defaults = _ACTIVATIONS[name.lower()]
        given = {kind: next(lists[kind], value) for kind, value in defaults.items()}
        found.append(partial(function, **given))
    return found


def _recurrent(op: Builder, node: ir.Node, *_: ir.Value | None) -> Sequence[ir.Value]:
    """Return the outputs of an RNN, a GRU or an LSTM."""
    return step_by_step(op, node, _activations(node))


RNN: dict[str, Expansion] = dict.fromkeys(DEFAULT_ACTIVATIONS, _recurrent)

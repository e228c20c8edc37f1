"""What the gates of recurrent networks may apply to their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.operator import Operator

__all__ = ["Activation", "activations"]

Activation = Callable[[Any], Any]


def _affine(x: Any, alpha: float, beta: float) -> Any:
    return alpha * x + beta


def _elu(x: Any, alpha: float) -> Any:
    return jax.nn.elu(x, alpha)


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return jnp.clip(alpha * x + beta, 0, 1)


def _leaky_relu(x: Any, alpha: float) -> Any:
    return jnp.where(x < 0, alpha * x, x)


def _scaled_tanh(x: Any, alpha: float, beta: float) -> Any:
    return alpha * jnp.tanh(beta * x)


def _thresholded_relu(x: Any, alpha: float) -> Any:
    return jnp.where(x > alpha, x, 0)


def _sigmoid(x: Any) -> Any:
    return jax.nn.sigmoid(x)


# Each with the defaults of the parameters that it takes.
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "affine": (_affine, {"alpha": 1.0, "beta": 0.0}),
    "elu": (_elu, {"alpha": 1.0}),
    "hardsigmoid": (_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (_leaky_relu, {"alpha": 0.01}),
    "relu": (lambda x: jnp.maximum(x, 0), {}),
    "scaledtanh": (_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": (_sigmoid, {}),
    "softplus": (lambda x: jnp.logaddexp(x, 0), {}),
    "softsign": (lambda x: x / (1 + jnp.abs(x)), {}),
    "tanh": (jnp.tanh, {}),
    "thresholdedrelu": (_thresholded_relu, {"alpha": 1.0}),
}


def activations(op: Operator, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return the activations of each direction; each takes its parameters from the lists."""
    names = op.texts("activations", tuple(default) * directions)
    lists = {kind: iter(op.numbers(f"activation_{kind}", ())) for kind in ("alpha", "beta")}
    found: list[Activation] = []
    for name in names:
        function, defaults = _ACTIVATIONS[name.lower()]
        given = {kind: next(lists[kind], value) for kind, value in defaults.items()}
        found.append(partial(function, **given))
    count = len(default)
    return [found[i * count : (i + 1) * count] for i in range(directions)]

"""Operators that compute each element for itself, from one operand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import Function, lowering

__all__: list[str] = []

# Functions that NumPy and JAX have under the same name.
_SAME = {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Round": "rint",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


def _same(name: str) -> Function:
    """Y = f(X), where f has that name in NumPy and JAX."""

    def function(op: Operator, X: Any) -> Any:
        return getattr(op.xp, name)(X)

    return function


for _op_type, _name in _SAME.items():
    lowering(_op_type, folds=True, rows="each")(_same(_name))


@lowering("Identity", folds=True, rows="each")
def identity(op: Operator, X: Any) -> Any:
    """Y = X."""
    return X


@lowering("Sigmoid", rows="each")
def sigmoid(op: Operator, X: Any) -> Any:
    """Y = 1 / (1 + exp -X)."""
    return jax.nn.sigmoid(jnp.asarray(X))


@lowering("Erf", rows="each")
def erf(op: Operator, X: Any) -> Any:
    """Y = 2/√π · the integral of exp(-t²) from 0 to X."""
    X = jnp.asarray(X)
    real = X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.float64)
    return jax.lax.erf(real).astype(X.dtype)


@lowering("Softplus", rows="each")
def softplus(op: Operator, X: Any) -> Any:
    """Y = log(1 + exp X), also where exp X is too large for the type."""
    return jnp.logaddexp(X, jnp.zeros((), X.dtype))

"""Random numbers: with a seed the same in every run, without one others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__ = ["uniform"]


def _key(op: Operator) -> jax.Array:
    seed = op.node.attributes.get("seed")
    # It is a float, whose fraction counts, or an integer, as the operator has it.
    number = None if seed is None else hash(seed.value)
    return op.trace.key(str(op.node.name), number)


def uniform(op: Operator, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return numbers from [0, 1)."""
    return jax.random.uniform(_key(op), shape, dtype)


def _normal(op: Operator, shape: tuple[int, ...]) -> jax.Array:
    numbers = jax.random.normal(_key(op), shape, op.dtype())
    return (numbers * op.number("scale", 1.0) + op.number("mean", 0.0)).astype(op.dtype())


def _uniform_between(op: Operator, shape: tuple[int, ...]) -> jax.Array:
    low, high = op.number("low", 0.0), op.number("high", 1.0)
    return (uniform(op, shape, op.dtype()) * (high - low) + low).astype(op.dtype())


@lowering("RandomNormal")
def random_normal(op: Operator) -> Any:
    """Numbers of a mean and a standard deviation."""
    return _normal(op, op.integers("shape"))


@lowering("RandomNormalLike", rows="each")
def random_normal_like(op: Operator, X: Any) -> Any:
    """Numbers of a mean and a standard deviation, as many as X has."""
    return _normal(op, X.shape)


@lowering("RandomUniform")
def random_uniform(op: Operator) -> Any:
    """Numbers from [low, high)."""
    return _uniform_between(op, op.integers("shape"))


@lowering("RandomUniformLike", rows="each")
def random_uniform_like(op: Operator, X: Any) -> Any:
    """Numbers from [low, high), as many as X has."""
    return _uniform_between(op, X.shape)


@lowering("Multinomial")
def multinomial(op: Operator, X: Any) -> Any:
    """Numbers of classes, by the logarithms of how likely each is."""
    shape = op.integer("sample_size", 1), X.shape[0]
    return jax.random.categorical(_key(op), jnp.asarray(X), -1, shape).T.astype(op.dtype())


@lowering("Bernoulli", rows="each")
def bernoulli(op: Operator, X: Any) -> Any:
    """1 as likely as X says, 0 else; what ONNX makes of it has these the other way round."""
    return (uniform(op, X.shape, X.dtype) < X).astype(op.dtype())

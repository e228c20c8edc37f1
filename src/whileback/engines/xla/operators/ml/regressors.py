"""Models that are linear, or linear in kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.ml.transforms import transformed
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

_ML = "ai.onnx.ml"


@lowering("LinearRegressor", domain=_ML, rows="each")
def linear_regressor(op: Operator, X: Any) -> Any:
    """X·coefficients + intercepts, for each target."""
    targets = op.integer("targets", 1)
    weights = jnp.float32(op.numbers("coefficients")).reshape(targets, -1)
    scores = X.astype(np.float32) @ weights.T + jnp.float32(op.numbers("intercepts", (0.0,)))
    return transformed(scores, op.text("post_transform", "NONE"))


@lowering("SVMRegressor", domain=_ML, rows="each")
def svm_regressor(op: Operator, X: Any) -> Any:
    """Σ coefficient·kernel(X, support vector) + rho; of one class, 1 where that is positive."""
    X = X.astype(np.float32)
    weights, rho = jnp.float32(op.numbers("coefficients")), op.numbers("rho")[0]
    count = op.integer("n_supports", 0)
    if count:
        vectors = jnp.float32(op.numbers("support_vectors")).reshape(count, -1)
        scores = kernel(op, X, vectors) @ weights.reshape(-1, 1) + np.float32(rho)
    else:
        scores = kernel(op, X, weights.reshape(1, -1)) + np.float32(rho)
    if op.integer("one_class", 0):
        return jnp.where(scores > 0, 1, -1).astype(np.float32)
    return transformed(scores, op.text("post_transform", "NONE"))


def kernel(op: Operator, X: Any, vectors: Any) -> Any:
    """Return how near each row of X is to each vector."""
    gamma, offset, degree = map(np.float32, op.numbers("kernel_params", (0.0, 0.0, 0.0)))
    name = op.text("kernel_type", "LINEAR")
    if name == "RBF":
        distances = jnp.sum((X[:, None] - vectors[None]) ** 2, -1)
        return jnp.exp(-gamma * distances)
    products = X @ vectors.T
    if name == "POLY":
        return (gamma * products + offset) ** degree
    if name == "SIGMOID":
        return jnp.tanh(gamma * products + offset)
    return products

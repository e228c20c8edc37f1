"""Operators that prepare numbers for what learns from them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.tensor.places import checked
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

_ML = "ai.onnx.ml"


@lowering("Binarizer", domain=_ML, rows="each")
def binarizer(op: Operator, X: Any) -> Any:
    """1 where X is above the threshold, 0 elsewhere."""
    return (op.number("threshold", 0.0) < X).astype(X.dtype)


@lowering("Scaler", domain=_ML, rows="each")
def scaler(op: Operator, X: Any) -> Any:
    """(X - offset)·scale, for each column."""
    offset, scale = op.numbers("offset", (0.0,)), op.numbers("scale", (1.0,))
    return (X.astype(np.float32) - jnp.float32(offset)) * jnp.float32(scale)


@lowering("Normalizer", domain=_ML, rows="each")
def normalizer(op: Operator, X: Any) -> Any:
    """Each row by its largest element, or the sum of its sizes, or the root of that of squares."""
    X = X.astype(np.float32)
    norm = op.text("norm", "MAX")
    if norm == "MAX":
        length = jnp.max(X, -1, keepdims=True)
    elif norm == "L1":
        length = jnp.sum(jnp.abs(X), -1, keepdims=True)
    else:
        length = jnp.sqrt(jnp.sum(X * X, -1, keepdims=True))
    return X / jnp.where(length == 0, 1, length)


@lowering("Imputer", domain=_ML, rows="each")
def imputer(op: Operator, X: Any) -> Any:
    """X with other values, of each column, in place of one that stands for a missing one."""
    if jnp.issubdtype(X.dtype, jnp.integer):
        missing = op.integer("replaced_value_int64", 0) == X
        values = op.integers("imputed_value_int64s")
    else:
        replaced = op.number("replaced_value_float", 0.0)
        missing = jnp.isnan(X) if np.isnan(replaced) else replaced == X
        values = op.numbers("imputed_value_floats")
    return jnp.where(missing, np.array(values, X.dtype), X)


@lowering("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(op: Operator, X: Any, Y: Any) -> Any:
    """Columns of X by their numbers."""
    places = checked(op, Y.reshape(-1), X.shape[-1])
    columns = jnp.take(X, places, -1, mode="fill")
    return columns.reshape(1, -1) if X.ndim == 1 else columns


@lowering("LabelEncoder", domain=_ML, rows="each")
def label_encoder(op: Operator, X: Any) -> Any:
    """The value of each element's key, or a default for those that are no keys."""
    keys, values = _list(op, "keys").astype(X.dtype), _list(op, "values").astype(op.dtype())
    order = np.argsort(keys, kind="stable")
    places = jnp.clip(jnp.searchsorted(keys[order], X), 0, len(keys) - 1)
    found = jnp.asarray(keys[order])[places]
    is_key = (found == X) | ((found != found) & (X != X))
    default = np.array(_default(op), op.dtype())
    return jnp.where(is_key, jnp.asarray(values[order])[places], default)


def _list(op: Operator, name: str) -> np.ndarray:
    """Return the keys or values."""
    tensor = op.node.attributes.get(f"{name}_tensor")
    if tensor is not None:
        return np.asarray(tensor.as_tensor().numpy())
    whole = op.integers(f"{name}_int64s")
    return np.array(whole if whole is not None else op.numbers(f"{name}_floats"))


def _default(op: Operator) -> Any:
    """Return the value for what is no key."""
    tensor = op.node.attributes.get("default_tensor")
    if tensor is not None:
        return tensor.as_tensor().numpy().item()
    if jnp.issubdtype(op.dtype(), jnp.integer):
        return op.integer("default_int64", -1)
    return op.number("default_float", -0.0)

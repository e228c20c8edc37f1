"""Counts of n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched
from whileback.engines.xla.registry import lowering
from whileback.errors import EngineError

__all__: list[str] = []


def _tf_idf_vectorizer(op: Operator, X: Any) -> Any:
    """Y = how often each n-gram of the pool stands in a row of X, with gaps up to a width."""
    if op.integers("pool_int64s") is None:
        raise EngineError(
            f"The engine 'xla' cannot run node {op.node.name!r} (TfIdfVectorizer): XLA has no "
            "strings, of which its pool is made. Run the model with engine='onnxruntime'."
        )
    X, indexes = jnp.asarray(X), op.integers("ngram_indexes")
    counts = jnp.zeros((*X.shape[:-1], max(indexes) + 1), jnp.int32)
    for grams, first in _pool(op):
        for gap in range(1, (op.integer("max_skip_count") if grams.shape[1] > 1 else 0) + 2):
            found = _occurrences(X, grams, gap)
            counts = counts.at[..., indexes[first : first + len(grams)]].add(found)
    return _weighted(op, counts, indexes)


lowering("TfIdfVectorizer", rows=batched(_tf_idf_vectorizer))(_tf_idf_vectorizer)


def _pool(op: Operator) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the n-grams of each length asked for, and how many stand before them in the pool."""
    numbers, starts = np.array(op.integers("pool_int64s")), op.integers("ngram_counts")
    first = 0
    ends = (*starts[1:], len(numbers))
    for length, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        grams = numbers[start:end].reshape(-1, length)
        if op.integer("min_gram_length") <= length <= op.integer("max_gram_length"):
            yield grams, first
        first += len(grams)


def _occurrences(X: Any, grams: np.ndarray, gap: int) -> Any:
    """Count in the rows of X each of these n-grams, whose elements stand `gap` apart."""
    length = grams.shape[1]
    places = np.arange(X.shape[-1] - gap * (length - 1))[:, None] + gap * np.arange(length)
    is_there = X[..., places, None] == jnp.asarray(grams.T, X.dtype)
    return is_there.all(-2).sum(-2, dtype=jnp.int32)


def _weighted(op: Operator, counts: Any, indexes: tuple[int, ...]) -> Any:
    """Return the counts (TF), the weights of what is there (IDF), or their products (TFIDF)."""
    mode, Y = op.text("mode"), counts.astype(jnp.float32)
    if mode == "TF":
        return Y
    weights = np.ones(counts.shape[-1], np.float32)
    given = op.numbers("weights")
    if given is not None:
        weights[list(indexes)] = given
    return (Y if mode == "TFIDF" else jnp.minimum(Y, 1)) * weights

"""Ensembles of trees: all rows go down all trees at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.ml.transforms import transformed
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MEMBER = 6


@dataclass(frozen=True)
class _Forest:
    """Nodes by number, and then leaves, each of which is its own next node."""

    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    to_true: np.ndarray
    next_true: np.ndarray
    next_false: np.ndarray
    sets: np.ndarray

    @classmethod
    def of(cls, op: Operator) -> _Forest:
        """Read the attributes."""
        count, leaves = len(op.integers("nodes_featureids")), len(op.integers("leaf_targetids"))
        ends = np.arange(count, count + leaves)

        def and_leaves(values: Any) -> np.ndarray:
            inner = np.asarray(values)
            return np.concatenate([inner, np.zeros((leaves, *inner.shape[1:]), inner.dtype)])

        def nexts(side: str) -> np.ndarray:
            is_leaf = np.array(op.integers(f"nodes_{side}leafs"))
            return np.concatenate([op.integers(f"nodes_{side}nodeids") + count * is_leaf, ends])

        modes = _tensor(op, "nodes_modes")
        missing = op.integers("nodes_missing_value_tracks_true", (0,) * count)
        return cls(
            features=and_leaves(op.integers("nodes_featureids")),
            splits=and_leaves(_tensor(op, "nodes_splits")),
            modes=and_leaves(modes),
            to_true=and_leaves(missing).astype(bool),
            next_true=nexts("true"),
            next_false=nexts("false"),
            sets=and_leaves(_sets(op, modes)),
        )

    def leaves(self, X: Any, roots: Any) -> Any:
        """Return the leaf that each row of X comes to in each tree."""
        rows = np.arange(X.shape[0])[:, None]
        start = jnp.broadcast_to(jnp.asarray(roots), (X.shape[0], len(roots)))
        inner = len(self.next_true) - np.sum(self.next_true == np.arange(len(self.next_true)))

        def step(nodes: Any) -> Any:
            x = X[rows, jnp.asarray(self.features)[nodes]]
            holds = self._holds(x, nodes) | (jnp.isnan(x) & jnp.asarray(self.to_true)[nodes])
            ways = jnp.asarray(self.next_true)[nodes], jnp.asarray(self.next_false)[nodes]
            return jnp.where(holds, *ways)

        end = jax.lax.while_loop(lambda nodes: jnp.any(nodes < inner), step, start)
        return end - inner

    def _holds(self, x: Any, nodes: Any) -> Any:
        """Tell whether the nodes' conditions hold."""
        split = jnp.asarray(self.splits)[nodes]
        tests = [x <= split, x < split, x >= split, x > split, x == split, x != split]
        tests.append(jnp.any(x[..., None] == jnp.asarray(self.sets)[nodes], -1))
        return jnp.choose(jnp.asarray(self.modes)[nodes].astype(np.int32), tests, mode="clip")


def _tensor(op: Operator, name: str) -> np.ndarray:
    return np.asarray(op.node.attributes[name].as_tensor().numpy())


def _sets(op: Operator, modes: np.ndarray) -> np.ndarray:
    """Return the set of each node that asks for a member, filled up with NaN, as rows."""
    splits = _tensor(op, "nodes_splits")
    has_sets = "membership_values" in op.node.attributes
    sets: list[list[Any]] = [[]]
    for value in _tensor(op, "membership_values") if has_sets else splits[:0]:
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    rows = np.full((len(modes), max(map(len, sets)) or 1), np.nan, splits.dtype)
    for node, members in zip(np.flatnonzero(modes == _MEMBER), sets, strict=False):
        rows[node, : len(members)] = members
    return rows


@lowering("TreeEnsemble", domain="ai.onnx.ml")
def tree_ensemble(op: Operator, X: Any) -> Any:
    """What the leaves, one of each tree, add up to for each target, or its mean, least or most."""
    X = jnp.asarray(X)
    leaves = _Forest.of(op).leaves(X, op.integers("tree_roots"))
    weights = jnp.asarray(_tensor(op, "leaf_weights"))[leaves]
    targets = jnp.array(op.integers("leaf_targetids"))[leaves]
    is_mine = targets[..., None] == np.arange(op.integer("n_targets"))
    how = op.integer("aggregate_function", 1)
    if how in (2, 3):
        reduce = jnp.min if how == 2 else jnp.max
        worst = np.inf if how == 2 else -np.inf
        scores = reduce(jnp.where(is_mine, weights[..., None], worst), 1)
        scores = jnp.where(jnp.isinf(scores), 0, scores)
    else:
        scores = jnp.sum(jnp.where(is_mine, weights[..., None], 0), 1)
        scores = scores / weights.shape[1] if how == 0 else scores
    return transformed(scores, _TRANSFORMS[op.integer("post_transform", 0)])

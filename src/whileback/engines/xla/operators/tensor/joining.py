"""Operators that join arrays, take them apart, and repeat them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def concat_rows(op: Operator, *parts: Any) -> Any:
    """Rows side by side; behind each other, they are no longer the first ones."""
    axis = op.integer("axis")
    stacks = [part for part in parts if isinstance(part, Rows)]
    if axis in (0, -stacks[0].ndim) or len(stacks) < len(parts):
        return concat(op, *(exact(op.trace, part) for part in parts))
    room = min(stack.capacity for stack in stacks)
    return stacks[0].like(jnp.concatenate([stack.buffer[:room] for stack in stacks], axis))


@lowering("Concat", folds=True, rows=concat_rows)
def concat(op: Operator, *parts: Any) -> Any:
    """The parts behind each other along an axis."""
    return op.xp.concatenate(parts, op.integer("axis"))


def split_rows(op: Operator, X: Rows, split: Any = None) -> Any:
    """Each row taken apart; a stack taken apart is no longer one of first rows."""
    if op.integer("axis", 0) % X.ndim == 0:
        return split_(op, exact(op.trace, X), split)
    return tuple(map(X.like, split_(op, X.buffer, split)))


@lowering("Split", folds=True, rows=split_rows)
def split_(op: Operator, X: Any, split: Any = None) -> Any:
    """Parts of X along an axis: of these sizes, or of one size, of which the last may have less."""
    axis = op.integer("axis", 0)
    if split is None:
        length, count = X.shape[axis], op.integer("num_outputs", len(op.node.outputs))
        ends = np.minimum(np.arange(1, count) * -(-length // count), length)
    else:
        sizes = op.static(split, "split")
        if len(sizes) != len(op.node.outputs) or sizes.sum() != X.shape[axis] or sizes.min() < 0:
            raise ValueError(
                f"sizes {sizes.tolist()} are not those of {len(op.node.outputs)} parts of an axis "
                f"of {X.shape[axis]}"
            )
        ends = np.cumsum(sizes)[:-1]
    return tuple(op.xp.split(X, [int(end) for end in ends], axis))


def tile_rows(op: Operator, X: Rows, repeats: Any) -> Any:
    """Rows stay rows if each is repeated within itself."""
    counts = op.static(repeats, "repeats")
    if counts[0] != 1:
        return tile(op, exact(op.trace, X), repeats)
    return X.like(tile(op, X.buffer, counts))


@lowering("Tile", folds=True, rows=tile_rows)
def tile(op: Operator, X: Any, repeats: Any) -> Any:
    """X so often behind itself along each axis."""
    counts = op.static(repeats, "repeats")
    if len(counts) != X.ndim or (counts < 0).any():
        raise ValueError(f"{counts.tolist()} does not tell how often X is repeated along each axis")
    return op.xp.tile(X, tuple(map(int, counts)))

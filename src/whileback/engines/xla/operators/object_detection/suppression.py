"""`NonMaxSuppression`: the best of boxes that overlap."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("NonMaxSuppression")
def non_max_suppression(
    op: Operator,
    boxes: Any,
    scores: Any,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
) -> Any:
    """(batch, class, box) of the boxes that overlap none of a better score by too much."""
    low, high = _corners(jnp.asarray(boxes), op.integer("center_point_box", 0))
    scores = jnp.asarray(scores)
    order = jnp.argsort(-scores, axis=2, stable=True)
    allowed = scores > (-np.inf if least is None else least.reshape(()))
    limit = 0 if most is None else most.reshape(())
    threshold = 0 if overlap is None else overlap.reshape(())

    def choose(low: Any, high: Any, order: Any, allowed: Any) -> Any:
        return _chosen(low[order], high[order], allowed[order], limit, threshold)

    for_classes = jax.vmap(choose, (None, None, 0, 0))
    chosen = jax.vmap(for_classes)(low, high, order, allowed)
    count = int(op.static(jnp.count_nonzero(chosen), "count"))
    batch, kind, place = jnp.nonzero(chosen, size=count)
    return jnp.stack([batch, kind, order[batch, kind, place]], 1).astype(np.int64)


def _corners(boxes: jax.Array, from_center: int) -> tuple[jax.Array, jax.Array]:
    """Return the least and the greatest coordinates of the boxes."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if from_center:
        return first - second / 2, first + second / 2
    return jnp.minimum(first, second), jnp.maximum(first, second)


def _chosen(low: Any, high: Any, allowed: Any, limit: Any, threshold: Any) -> Any:
    """Tell which boxes are chosen, from the best to the worst."""
    area = jnp.prod(high - low, 1)

    def look(place: Any, state: Any) -> Any:
        chosen, open_ = state
        is_chosen = open_[place] & (jnp.count_nonzero(chosen) < limit)
        sides = jnp.minimum(high, high[place]) - jnp.maximum(low, low[place])
        common = jnp.prod(jnp.maximum(sides, 0), 1)
        ratio = jnp.where(common > 0, common / (area + area[place] - common), 0)
        return chosen.at[place].set(is_chosen), open_ & ~(is_chosen & (ratio > threshold))

    return jax.lax.fori_loop(0, len(area), look, (jnp.zeros_like(allowed), allowed))[0]

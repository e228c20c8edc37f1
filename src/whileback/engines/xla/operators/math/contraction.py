"""Sums of products, by the labels of axes, where some operands are stacks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from whileback.engines.xla.facts import Trace
from whileback.engines.xla.interpret import exact
from whileback.engines.xla.rows import Rows

__all__ = ["contract"]


def contract(
    trace: Trace,
    product: Callable[..., jax.Array],
    operands: Sequence[Any],
    labels: Sequence[str],
    result: str,
) -> Any:
    """Return a sum of products of operands whose axes have these labels, as in `Einsum`.

    Rows make rows of the result, or are summed over: then those that do not count are zeros.
    """
    stacks = [operand for operand in operands if isinstance(operand, Rows)]
    row = _row_label(operands, labels)
    if not stacks or row is None or row in result[1:]:
        return product(*(exact(trace, operand) for operand in operands))
    capacity = min(stack.capacity for stack in stacks)
    is_summed = row not in result

    def buffer(operand: Any) -> Any:
        if not isinstance(operand, Rows):
            return operand
        return (operand.filled(0) if is_summed else operand.buffer)[:capacity]

    array = product(*map(buffer, operands))
    return array if is_summed else stacks[0].like(array)


def _row_label(operands: Sequence[Any], labels: Sequence[str]) -> str | None:
    """Return the label of all rows, if it is one and nothing else has it."""
    found: set[str] = set()
    others: set[str] = set()
    for operand, axes in zip(operands, labels, strict=True):
        sizes = dict(zip(axes, operand.shape, strict=True))
        if isinstance(operand, Rows):
            found.add(axes[0])
            axes = axes[1:]
        others.update(axis for axis in axes if sizes[axis] != 1)
    return found.pop() if len(found) == 1 and not found & others else None

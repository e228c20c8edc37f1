"""Running a part of the gradient only when there is something to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder

__all__ = ["guard"]

Emit = Callable[[GradientBuilder], Sequence[ir.Value]]


def guard(
    op: GradientBuilder, count: ir.Value | None, some: Emit, none: Emit
) -> Sequence[ir.Value]:
    """Emit `If(count > 0)` around two ways to the same values; only `some` if count is None.

    ONNX Runtime refuses a `Scan` over an axis of length zero, hence the guard.
    """
    if count is None:
        return some(op)
    return op.either(op.Greater(count, 0), some, none)

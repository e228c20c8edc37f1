"""The scale of a loss whose gradients are computed in FLOAT16, and steps left out for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.training.differentiated import Differentiated
from whileback.training.precision import Precision
from whileback.training.updates import Updates

__all__ = ["Scaling"]


class Scaling:
    """Updates by gradients of a scaled loss; the arithmetic of the scale is `GradScaler`'s.

    Args:
        work: gradients of the loss times its `scale`; gets the number of `finite_steps` in a row.
        updates: by what these are when divided by the scale.
        precision: how the scale changes.
    """

    def __init__(self, work: Differentiated, updates: Updates, precision: Precision) -> None:
        assert work.scale is not None
        self.updates, self.precision, self.scale = updates, precision, work.scale
        self.finite_steps = work.keep("finite_steps", np.array(0))

    @property
    def kept(self) -> list[ir.Value]:
        """The values that `emit` gives another value."""
        return [*self.updates.kept, self.scale, self.finite_steps]

    def emit(self, op: Builder, slopes: Mapping[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """Emit a step that is left out if a gradient is not finite, and the next scale."""
        op.role, op.origin = "scale", ir.node("Scale", [], name=str(self.scale.name))
        inverse = op.Reciprocal(self.scale)
        slopes = {w: op.Mul(g, op.cast(inverse, g)) for w, g in slopes.items()}
        lengths = [op.cast(op.ReduceL1(g, keepdims=0), self.scale) for g in slopes.values()]
        finite = self._is_finite(op, op.Sum(*lengths))
        following = self._next(op, finite)
        kept = self.updates.kept

        def step(side: Builder) -> list[ir.Value]:
            after = self.updates.emit(side, slopes)
            return [after[value] for value in kept]

        results = op.either(finite, step, lambda side: kept)
        return dict(zip(kept, results, strict=True)) | following

    def _is_finite(self, op: Builder, value: ir.Value) -> ir.Value:
        return op.Less(value, op.constant(np.float32(np.inf)))

    def _next(self, op: Builder, finite: ir.Value) -> dict[ir.Value, ir.Value]:
        """Return the next scale, and how many steps in a row were made since it has changed."""
        made = op.Add(self.finite_steps, 1)
        full = op.Equal(made, self.precision.interval)
        grown = op.Mul(self.scale, float(self.precision.growth))
        grown = op.Where(self._is_finite(op, grown), grown, self.scale)
        after = op.Where(full, grown, self.scale)
        less = op.Mul(self.scale, float(self.precision.backoff))
        goes_on = op.And(finite, op.Not(full))
        return {
            self.scale: op.Where(finite, after, less),
            self.finite_steps: op.Where(goes_on, made, op.constant(np.int64(0))),
        }

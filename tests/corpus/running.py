"""Runs models on ONNX Runtime, or where it cannot in NumPy, and compares what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from tests.corpus.arguments import is_float

from whileback.checking.compare import rounding
from whileback.engines import Compiled, compile
from whileback.errors import EngineError

__all__ = ["NoEngineError", "agree", "start"]


class NoEngineError(Exception):
    """No engine runs a model as it is."""


def start(model: ir.Model, feeds: dict[str, Any]) -> tuple[Compiled, str]:
    """Return the compiled model, and why it does not run on ONNX Runtime, but in NumPy.

    Raises: NoEngineError.
    """
    try:
        compiled = compile(model, threads=1)
        compiled(feeds)
        return compiled, ""
    except EngineError as error:
        problem = str(error)
    try:
        compiled = compile(model, "reference")
        compiled(feeds)
        return compiled, problem
    except EngineError as error:
        raise NoEngineError(f"{problem} {error}") from error


def agree(want: Any, got: Any) -> bool:
    """Tell whether two results are the same up to rounding."""
    if isinstance(want, list):
        return len(want) == len(got) and all(map(agree, want, got))
    if not is_float(want):
        return bool(np.array_equal(want, got))
    wide = want.astype(np.float64)
    scale = np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0)
    tolerance = rounding(want.dtype) * float(scale)
    same_size = np.shape(want) == np.shape(got)
    return same_size and np.allclose(got.astype(float), wide, 0, tolerance, equal_nan=True)

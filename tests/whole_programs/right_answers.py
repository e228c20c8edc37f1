"""Right answers written as numbers: running a gradient at a point, and comparing strictly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.judge import parse

from whileback.engines import Compiled, compile
from whileback.gradient import vjp

__all__ = ["assert_numbers", "pullback"]


def pullback(text: str, of: str, wrt: str, opset: int = 21) -> Compiled:
    """Return the compiled vjp of a model's text; `of` and `wrt` are names between spaces."""
    return compile(vjp(parse(text, opset), of=of.split(), wrt=wrt.split()), threads=1)


def assert_numbers(
    outputs: Mapping[str, np.ndarray], atol: float = 1e-6, **right: float | Sequence[Any]
) -> None:
    """Assert that outputs have these numbers, to six digits, and this shape."""
    for name, want in right.items():
        assert outputs[name].shape == np.shape(want), f"{name}: {outputs[name].shape}"
        np.testing.assert_allclose(outputs[name], want, rtol=2e-6, atol=atol, err_msg=name)

"""Judges lowerings by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tests.judge import parse

from whileback.engines import compile

__all__ = ["assert_agrees", "normal"]


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Return numbers of a normal distribution; twice the same seed gives the same ones."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def assert_agrees(
    text: str, inputs: Mapping[str, Any], *, opset: int = 21, rtol: float = 2e-5
) -> Sequence[np.ndarray]:
    """Assert that XLA gives what ONNX Runtime does, to a share of the largest element.

    The ranks of the model's inputs and outputs may be left out of the text.
    """
    model = _with_ranks(parse(text, opset), inputs)
    expected = compile(model)(inputs)
    found = compile(model, engine="xla")(inputs)
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        value = found[name]
        assert value.dtype == wanted.dtype, name
        assert value.shape == wanted.shape, name
        if np.issubdtype(wanted.dtype, np.integer) or wanted.dtype == bool:
            np.testing.assert_array_equal(value, wanted, err_msg=name)
            continue
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        bound = rtol * float(finite.max(initial=1e-30))
        np.testing.assert_allclose(value, wanted, rtol=0, atol=bound, err_msg=name)
    return list(found.values())


def _with_ranks(model: ir.Model, inputs: Mapping[str, Any]) -> ir.Model:
    """Return the model with inputs of the ranks given, and outputs of any.

    ONNX Runtime asks for the lengths of lists of sizes and scales.
    """
    for value in model.graph.inputs:
        sizes = np.shape(inputs[str(value.name)])
        names = [f"{value.name}{axis}" for axis in range(len(sizes))]
        value.shape = ir.Shape(sizes if len(sizes) == 1 else names)
    for value in model.graph.outputs:
        value.shape = None
    return model

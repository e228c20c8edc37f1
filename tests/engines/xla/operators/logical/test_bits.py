"""Logic on truth values and on bits agrees with NumPy and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees
from tests.judge import parse

from whileback.engines import compile


def test_combines_truth_values() -> None:
    names = ["And", "Or", "Xor", "Equal"]
    outputs = ", ".join(f"bool Y{name}" for name in [*names, "Not"])
    lines = " ".join(f"Y{name} = {name}(A, B)" for name in names)
    text = f"(bool A, bool B) => ({outputs}) {{ {lines} YNot = Not(A) }}"
    assert_agrees(text, {"A": np.array([[True], [False]]), "B": np.array([True, False])})


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
def test_combines_bits(dtype: str) -> None:
    calls = ["BitwiseAnd(A, B)", "BitwiseOr(A, B)", "BitwiseXor(A, B)", "BitwiseNot(A)"]
    outputs = ", ".join(f"{dtype}[2] Y{k}" for k in range(len(calls)))
    lines = " ".join(f"Y{k} = {call}" for k, call in enumerate(calls))
    model = parse(f"({dtype}[2] A, {dtype}[2] B) => ({outputs}) {{ {lines} }}")
    A, B = np.array([12, 101], dtype), np.array([10, 7], dtype)
    found = list(compile(model, engine="xla")(A=A, B=B).values())
    for value, wanted in zip(found, [A & B, A | B, A ^ B, ~A], strict=True):
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_moves_bits(dtype: str) -> None:
    text = f"""({dtype} A, {dtype} B) => ({dtype} Y, {dtype} Z) {{
        Y = BitShift<direction = "LEFT">(A, B) Z = BitShift<direction = "RIGHT">(A, B)
    }}"""
    assert_agrees(text, {"A": np.array([1, 200, 255], dtype), "B": np.array([3, 1, 7], dtype)})

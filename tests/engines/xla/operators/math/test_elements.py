"""What is computed element by element agrees with ONNX Runtime, also while compiling."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile

UNARY = (
    "Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor Neg Reciprocal Round Sigmoid Sign Sin Sinh "
    "Softplus Tan Tanh Identity"
).split()
SPECIAL = np.float32([0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -100, 100])


@pytest.mark.parametrize("known", [False, True])
def test_takes_functions(known: bool) -> None:
    values = ", ".join(str(float(x)) for x in [0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 3e4, -80.0])
    start = f"<float[8] X = {{{values}}}>" if known else ""
    source = "float[1] Z" if known else "float X"
    outputs = ", ".join(f"float Y{name}" for name in UNARY)
    lines = " ".join(f"Y{name} = {name}(X)" for name in UNARY)
    text = f"({source}) => ({outputs}) {start} {{ {lines} }}"
    inputs = {"Z": np.float32([0])} if known else {"X": SPECIAL}
    assert_agrees(text, inputs)


def test_takes_functions_where_they_are_defined() -> None:
    names = ["Acos", "Asin", "Atanh", "Log", "Sqrt"]
    outputs = ", ".join(f"float Y{name}" for name in [*names, "Acosh"])
    lines = " ".join(f"Y{name} = {name}(X)" for name in names)
    text = f"(float X, float Z) => ({outputs}) {{ {lines} YAcosh = Acosh(Z) }}"
    X = np.float32([0, 0.25, 0.9, 1, -1e-30, -2, np.nan])
    assert_agrees(text, {"X": X, "Z": np.float32([1, 1.5, 1e20])})


BINARY = [
    *(f"{name}(A, B)" for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod<fmod = 1>")),
    *(f"{name}(A, B)" for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
]


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize("known", [False, True])
def test_combines(dtype: str, known: bool) -> None:
    calls = BINARY if dtype in ("float", "double") else [*BINARY, "Mod(A, B)"]
    names = [f"Y{k}" for k in range(len(calls))]
    types = ["bool" if "Equal" in c or "er(" in c or "ss(" in c else dtype for c in calls]
    outputs = ", ".join(f"{t} {name}" for t, name in zip(types, names, strict=True))
    lines = " ".join(f"{name} = {call}" for name, call in zip(names, calls, strict=True))
    A, B = [7, -7, 7, -7, 6, 0], [2, 2, -2, -2, 3, 5]
    if known:
        listed = [", ".join(map(str, values)) for values in (A, B)]
        start = f"<{dtype}[6] A = {{{listed[0]}}}, {dtype}[6] B = {{{listed[1]}}}>"
        assert_agrees(f"(float Z) => ({outputs}) {start} {{ {lines} }}", {"Z": np.float32([0])})
        return
    as_type = {"float": np.float32, "double": np.float64}.get(dtype, dtype)
    inputs = {"A": np.array(A, as_type), "B": np.array([B, B[::-1]], as_type)}
    inputs["B"][1, 0] = 4
    assert_agrees(f"({dtype} A, {dtype} B) => ({outputs}) {{ {lines} }}", inputs)


def test_lets_nan_through() -> None:
    text = "(float A, float B) => (float Y, float Z) { Y = Max(A, B) Z = Min(A, B) }"
    A, B = np.float32([np.nan, 1, np.nan, np.inf]), np.float32([1, np.nan, np.nan, -np.inf])
    assert_agrees(text, {"A": A, "B": B})


def test_adds_several() -> None:
    text = """(float A, float B, float C) => (float Y, float Z, float W) {
        Y = Sum(A, B, C) Z = Mean(A, B, C) W = Mean(A)
    }"""
    inputs = {"A": normal(2, 3), "B": normal(3, seed=1), "C": normal(2, 1, seed=2)}
    assert_agrees(text, inputs)


@pytest.mark.parametrize("exponent", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize("base", ["float", "double", "int32", "int64"])
def test_raises_to_powers(base: str, exponent: str) -> None:
    types = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64}
    X = np.array([1, 2, 3, 5, -2, -3, 0, 7], types[base])
    Y = np.array([3, 10, 2, 3, 3, 2, 1, 0], types[exponent])
    assert_agrees(f"({base} X, {exponent} Y) => ({base} Z) {{ Z = Pow(X, Y) }}", {"X": X, "Y": Y})


def test_powers_of_integers_are_exact_and_whole() -> None:
    model = parse("(int64[4] X, int64[4] Y) => (int64[4] Z) { Z = Pow(X, Y) }")
    inputs = {"X": np.int64([3, 2, 1, -1]), "Y": np.int64([39, -1, -5, -3])}
    assert compile(model, engine="xla")(inputs)["Z"].tolist() == [3**39, 0, 1, -1]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_keeps_half_precision(dtype: type) -> None:
    name = {"float16": "float16", "bfloat16": "bfloat16"}[np.dtype(dtype).name]
    text = f"""({name}[n] X) => ({name}[n] A, {name}[n] B, {name}[n] C, {name}[n] D, {name} E) {{
        A = Add(X, X) B = Exp(X) C = Sigmoid(X) D = Pow(X, X) E = ReduceSum<keepdims = 0>(X)
    }}"""
    X = np.full(3000, 1.0).astype(dtype)
    found = compile(parse(text), engine="xla")(X=X)
    assert {Y.dtype for Y in found.values()} == {np.dtype(dtype)}
    wanted = {"A": 2, "B": np.e, "C": 1 / (1 + np.exp(-1)), "D": 1, "E": 3000}
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], np.full(found[key].shape, value).astype(dtype))


def test_remainders_follow_the_divisor() -> None:
    """The special cases that ONNX names for floats."""
    text = "(float[n] A, float[n] B) => (float[n] C) { C = Mod(A, B) }"
    model = parse(text, opset=28)
    A = np.float32([5.5, -5.5, 5.5, -5.5, np.inf, 1, 3, -3, 3, np.nan])
    B = np.float32([2, 2, -2, -2, 2, 0, np.inf, np.inf, -np.inf, 1])
    found = compile(model, engine="xla")(A=A, B=B)["C"]
    wanted = [1.5, 0.5, -0.5, -1.5, np.nan, np.nan, 3, np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(found, np.float32(wanted))

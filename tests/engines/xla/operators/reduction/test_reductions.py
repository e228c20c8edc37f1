"""Reductions agree with ONNX Runtime, also while compiling, and of nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile

NAMES = "Sum Mean Prod Max Min L1 L2 LogSum LogSumExp SumSquare".split()


@pytest.mark.parametrize("attributes", ["", "<keepdims = 0>", "<noop_with_empty_axes = 1>"])
@pytest.mark.parametrize("axes", [[], [-1], [0, -1], [1]])
def test_reduces(axes: list[int], attributes: str) -> None:
    names = [name for name in NAMES if axes or "noop" not in attributes or name == "Sum"]
    outputs = ", ".join(f"float Y{name}" for name in names)
    lines = " ".join(f"Y{name} = Reduce{name}{attributes}(X, axes)" for name in names)
    text = f"(float X, int64 axes) => ({outputs}) {{ {lines} }}"
    X = np.abs(normal(2, 3, 4)) + 0.5
    assert_agrees(text, {"X": X, "axes": np.array(axes, np.int64)})


def test_reduces_all() -> None:
    outputs = ", ".join(f"float Y{name}" for name in NAMES)
    lines = " ".join(f"Y{name} = Reduce{name}(X)" for name in NAMES)
    assert_agrees(f"(float X) => ({outputs}) {{ {lines} }}", {"X": np.abs(normal(2, 3)) + 0.5})


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reduces_integers(dtype: str, known: bool) -> None:
    names = ["Sum", "Prod", "Max", "Min", "Mean"] if dtype == "int32" else ["Sum", "Max", "Min"]
    values = [-7, 2, 3, 5, 11, -3]
    start = f"<{dtype}[6] X = {{{', '.join(map(str, values))}}}>" if known else ""
    outputs = ", ".join(f"{dtype} Y{name}" for name in names)
    lines = " ".join(f"Y{name} = Reduce{name}(X)" for name in names)
    source = "float[1] Z" if known else f"{dtype} X"
    inputs = {"Z": np.float32([0])} if known else {"X": np.array(values, dtype)}
    assert_agrees(f"({source}) => ({outputs}) {start} {{ {lines} }}", inputs)


def test_reduces_nothing() -> None:
    names = ["Sum", "Prod", "Max", "Min", "LogSumExp"]
    outputs = ", ".join(f"float[3] Y{name}" for name in names)
    lines = " ".join(f"Y{name} = Reduce{name}<keepdims = 0>(X, axes)" for name in names)
    model = parse(f"(float[n, 3] X) => ({outputs}) <int64[1] axes = {{0}}> {{ {lines} }}")
    found = compile(model, engine="xla")(X=np.zeros((0, 3), np.float32))
    wanted = {"Sum": 0, "Prod": 1, "Max": -np.inf, "Min": np.inf, "LogSumExp": -np.inf}
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[f"Y{name}"], np.full(3, value, np.float32))


def test_adds_up_large_exponentials() -> None:
    model = parse("(float[n] X) => (float Y) { Y = ReduceLogSumExp<keepdims = 0>(X) }")
    found = compile(model, engine="xla")(X=np.float32([1000, 1000, -np.inf]))["Y"]
    np.testing.assert_allclose(found, 1000 + np.log(2), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_adds_up_more_than_the_type_can_hold(dtype: str) -> None:
    text = f"({dtype}[n] X) => ({dtype} Y) {{ Y = ReduceMean<keepdims = 0>(X) }}"
    X = np.full(70001, 100).astype(ir.DataType[dtype.upper()].numpy())
    assert compile(parse(text), engine="xla")(X=X)["Y"] == 100


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("known", [False, True])
def test_finds_places(last: int, known: bool) -> None:
    calls = [
        f"Arg{name}<axis = {axis}, keepdims = {keeps}, select_last_index = {last}>(X)"
        for name in ("Max", "Min")
        for axis, keeps in ((0, 1), (-1, 0))
    ]
    values = [[3, 1, 3], [2, 3, 1], [1, 1, 1], [3, 3, 3]]
    listed = ", ".join(str(float(x)) for row in values for x in row)
    outputs = ", ".join(f"int64 Y{k}" for k in range(len(calls)))
    lines = " ".join(f"Y{k} = {call}" for k, call in enumerate(calls))
    start = f"<float[4, 3] X = {{{listed}}}>" if known else ""
    source = "float[1] Z" if known else "float X"
    inputs = {"Z": np.float32([0])} if known else {"X": np.float32(values)}
    assert_agrees(f"({source}) => ({outputs}) {start} {{ {lines} }}", inputs)

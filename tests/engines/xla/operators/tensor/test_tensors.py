"""Operators that move elements agree with ONNX Runtime's, also where nothing is known before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import EngineError

X = normal(4, 5)


def _numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


SLICES = {
    "from the end": ([-3, 1], [-1, 9], [0, 1], [1, 1]),
    "backwards": ([-1, 3], [-9, 0], [0, 1], [-1, -2]),
    "far outside": ([-(2**62), 2**62], [2**62, -(2**62)], [0, 1], [2, -3]),
    "nothing": ([3, 0], [1, 5], [0, 1], [1, 1]),
    "negative axes": ([1, 0], [3, 5], [-1, -2], [1, 2]),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str, known: bool) -> None:
    starts, ends, axes, steps = SLICES[name]
    constants = (
        f"<int64[2] s = {{{starts[0]}, {starts[1]}}}, int64[2] e = {{{ends[0]}, {ends[1]}}}>"
    )
    extra = "" if known else ", int64[2] s, int64[2] e"
    text = f"""(float X, int64[2] a, int64[2] t{extra}) => (float Y) {constants if known else ""} {{
        Y = Slice(X, s, e, a, t)
    }}"""
    inputs = {"X": X, "a": _numbers(*axes), "t": _numbers(*steps)}
    if not known:
        inputs |= {"s": _numbers(*starts), "e": _numbers(*ends)}
    assert_agrees(text, inputs)


PADS = {
    "around": [1, 2, 0, 3],
    "cut": [-1, 0, -2, -1],
    "both": [-1, 1, 2, -3],
    "cut all": [0, 1, -4, 1],
}


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("name", PADS)
def test_pads(name: str, mode: str) -> None:
    if name == "cut all" and mode != "constant":
        pytest.skip("there is nothing to copy")
    text = (
        f"""(float X, int64[4] p, float v) => (float Y) {{ Y = Pad<mode = "{mode}">(X, p, v) }}"""
    )
    assert_agrees(text, {"X": X, "p": _numbers(*PADS[name]), "v": np.array(0.5, np.float32)})


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatters(axis: int, reduction: str) -> None:
    text = f"""(float X, int64 i, float U, int64 j, float V) => (float Y, float Z) {{
        Y = ScatterElements<axis = {axis}, reduction = "{reduction}">(X, i, U)
        Z = ScatterND<reduction = "{reduction}">(X, j, V)
    }}"""
    places = np.array([[0, -1], [2, 1]]) if axis else np.array([[0, 1], [-1, 3]])
    inputs = {"X": X, "i": places, "U": normal(2, 2), "j": np.array([[0], [-1]]), "V": normal(2, 5)}
    assert_agrees(text, inputs)


def test_scatters_to_the_same_place_more_than_once() -> None:
    text = """(float X, int64 i, float U) => (float Y, float Z) {
        Y = ScatterElements<reduction = "add">(X, i, U)
        Z = ScatterElements<reduction = "max">(X, i, U)
    }"""
    assert_agrees(text, {"X": X, "i": np.array([[1, 1], [1, -3]]), "U": normal(2, 2)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gathers(axis: int) -> None:
    text = f"""(float X, int64 i) => (float Y, float Z) {{
        Y = Gather<axis = {axis}>(X, i)
        Z = GatherElements<axis = {axis}>(X, i)
    }}"""
    assert_agrees(text, {"X": X, "i": np.array([[0, -1, 2], [3, -4, 1]])})


@pytest.mark.parametrize("batch", [0, 1])
def test_gathers_by_coordinates(batch: int) -> None:
    places = np.array([[[0, 1]], [[-1, 2]]]) if batch else np.array([[0, 1], [-1, -3]])
    text = f"(float X, int64 i) => (float Y) {{ Y = GatherND<batch_dims = {batch}>(X, i) }}"
    assert_agrees(text, {"X": normal(2, 3, 4), "i": places})


CHOICES = {
    "NonZero": ("(float X) => (int64 Y) { Y = NonZero(X) }", {}),
    "Compress": ("(float X, bool c) => (float Y) { Y = Compress<axis = 1>(X, c) }", {}),
    "elements": ("(float X, bool c) => (float Y) { Y = Compress(X, c) }", {}),
    "OneHot": (
        "(int64 i, int64 d, float v) => (float Y) { Y = OneHot<axis = 1>(i, d, v) }",
        {"i": np.array([[0, -1], [7, 2]]), "d": np.array(3), "v": np.float32([-1, 2])},
    ),
    "Trilu": ("(float X, int64 k) => (float Y) { Y = Trilu(X, k) }", {"k": np.array(-1)}),
    "lower": ("(float X, int64 k) => (float Y) { Y = Trilu<upper = 0>(X, k) }", {"k": np.array(1)}),
    "Tile": ("(float X, int64[2] r) => (float Y) { Y = Tile(X, r) }", {"r": _numbers(2, 3)}),
    "ReverseSequence": (
        "(float X, int64[4] n) => (float Y) {"
        "Y = ReverseSequence<time_axis = 1, batch_axis = 0>(X, n) }",
        {"n": _numbers(1, 5, 3, 2)},
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_chooses(name: str) -> None:
    text, inputs = CHOICES[name]
    given: Mapping[str, Any] = {
        "X": np.where(X > 0, X, 0),
        "c": np.array([True, False, True]),
        **inputs,
    }
    assert_agrees(text, {key: value for key, value in given.items() if f" {key}" in text})


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", ["", "axis = 0, ", "axis = 1, "])
def test_unique(axis: str, in_order: int) -> None:
    text = f"""(float X) => (float Y, int64 first, int64 inverse, int64 counts) {{
        Y, first, inverse, counts = Unique<{axis}sorted = {in_order}>(X)
    }}"""
    assert_agrees(text, {"X": np.float32([[3, 1, 3], [1, 1, 1], [3, 1, 3], [0, 1, 0]])})


def test_small_types_move_as_they_are() -> None:
    text = """(bfloat16[2,3] X, int64[2] s) => (bfloat16[N,M] Y) {
        Y = Reshape(X, s)
    }"""
    given = normal(2, 3).astype(ml_dtypes.bfloat16)
    found = compile(parse(text), engine="xla")(X=given, s=_numbers(3, -1))["Y"]
    assert found.dtype == given.dtype
    np.testing.assert_array_equal(found, given.reshape(3, 2))


def test_places_outside_are_refused() -> None:
    text = "(float[4,5] X) => (float[5] Y) <int64 i = {4}> { Y = Gather(X, i) }"
    with pytest.raises(EngineError) as error:
        compile(parse(text), engine="xla")(X=X)
    assert str(error.value) == (
        "Gather 'Gather' asks for place 4 of an axis that has 4. Let its indices lie between -4 "
        "and 3."
    )


@pytest.mark.parametrize("place", [4, -5, 2**32, 2**32 + 1, -(2**32), 2**62, 2**63 - 1, -(2**63)])
def test_places_outside_that_only_a_run_knows_stay_outside(place: int) -> None:
    """Also those that 32 bits would bring back inside: reads find NaN, and writes nothing."""
    text = """(float[4,5] X, int64 i)
        => (float[5] G, float[1,5] E, float[5] N, float[4,5] S, float[4,5] T)
    <int64[1] one = {1}, int64[2] square = {1, 1}, int64[2] row = {1, 5}> {
        single = Reshape(i, one)
        many = Reshape(i, square)
        along = Expand(i, row)
        new = CastLike(along, X)
        G = Gather(X, i)
        E = GatherElements<axis = 0>(X, along)
        N = GatherND(X, single)
        S = ScatterND(X, many, new)
        T = ScatterElements<axis = 0>(X, along, new)
    }"""
    found = compile(parse(text), engine="xla")(X=X, i=np.int64(place))
    assert all(np.isnan(found[name]).all() for name in "GEN")
    assert all(np.array_equal(found[name], X) for name in "ST")

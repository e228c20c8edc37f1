"""Parts of arrays that are at another place in every trip, in loops that are not written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import normal
from tests.judge import parse

from whileback import gradient
from whileback.engines import compile
from whileback.engines.xla.control import loop
from whileback.errors import EngineError

CUTS = {
    "one row": "s = Unsqueeze(i, zero) t = Add(s, one) r = Slice(X, s, t, zero)",
    "two rows": "s = Unsqueeze(i, zero) t = Add(s, two) r = Slice(X, s, t, zero)",
    "backwards": "m = Sub(last, i) s = Unsqueeze(m, zero) t = Sub(s, one) "
    "r = Slice(X, s, t, zero, back)",
    "columns": "s = Unsqueeze(i, zero) t = Add(one, s) st = Concat<axis = 0>(zero, s) "
    "e = Concat<axis = 0>(two, t) r = Slice(X, st, e)",
}

EVEN = """(int64 n, float[2] z) => (float[2] y, int64[N,2] up, int64[N] down, float[N,2] same)
    <int64 three = {3}, int64[1] zero = {0}, bool yes = {1}, float[2] half = {0.5, -0.5}>
{
    y, up, down, same = Loop(n, yes, z) <body = b (int64 i, bool c, float[2] a)
        => (bool d, float[2] u, int64[2] up_row, int64 down_row, float[2] same_row) {
        d = Identity(c)
        u = Tanh(a)
        j = Sub(three, i)
        down_row = Add(j, j)
        k = Unsqueeze(i, zero)
        l = Unsqueeze(down_row, zero)
        up_row = Concat<axis = 0>(k, l)
        same_row = Identity(half)
    }>
}"""


def _text(cut: str) -> str:
    return f"""(float[5,6] X, float[6] z, int64 n) => (float[6] y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] back = {{-1}},
        int64 last = {{4}}, bool yes = {{1}}>
    {{
        y = Loop(n, yes, z) <body = b (int64 i, bool c, float[6] a) => (bool d, float[6] u) {{
            d = Identity(c)
            {cut}
            q = ReduceSum<keepdims = 0>(r, zero)
            p = Mul(q, a)
            u = Tanh(p)
        }}>
    }}"""


def _agrees(model: Any, **inputs: Any) -> None:
    expected, found = compile(model)(inputs), compile(model, engine="xla")(inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture
def _in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loops that would be written out fail."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a loop is written out")

    monkeypatch.setattr(loop, "unrolled", refuse)


@pytest.mark.usefixtures("_in_one")
@pytest.mark.parametrize("name", CUTS)
def test_slices_at_another_place_in_every_trip(name: str) -> None:
    model = parse(_text(CUTS[name]))
    inputs = {"X": normal(5, 6), "z": normal(6), "n": np.array(4)}
    _agrees(model, **inputs)
    _agrees(gradient(model, of="y", wrt=["X", "z"], reduce="sum"), **inputs)


def test_slices_that_reach_over_the_end_are_as_short_as_they_are() -> None:
    model = parse(_text(CUTS["two rows"]))
    _agrees(model, X=normal(5, 6), z=normal(6), n=np.array(5))


def test_what_follows_from_an_empty_slice_is_refused() -> None:
    model = parse(_text(CUTS["one row"] + " v = Squeeze(r, zero)"))
    with pytest.raises(EngineError, match="Squeeze"):
        compile(model, engine="xla")(X=normal(5, 6), z=normal(6), n=np.array(6))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_rows_that_grow_evenly(count: int) -> None:
    _agrees(parse(EVEN), n=np.array(count), z=normal(2))


NESTED = """(float[5,3] X, float[3] z, int64 n) => (float[3] y) <int64 one = {1}, bool yes = {1}> {
    y = Loop(n, yes, z) <body = b (int64 j, bool c, float[3] a) => (bool d, float[3] u) {
        d = Identity(c)
        count = Add(j, one)
        u = Loop(count, yes, a) <body = e (int64 i, bool f, float[3] v)
            => (bool g, float[3] w) {
            g = Identity(f)
            x = Gather(X, i)
            t = Tanh(v)
            p = Mul(x, t)
            w = Add(p, v)
        }>
    }>
}"""


@pytest.mark.usefixtures("_in_one")
def test_gradients_of_loops_in_loops_that_read_rows() -> None:
    model = gradient(parse(NESTED), of="y", wrt=["X", "z"], reduce="sum")
    for count in (3, 0):
        _agrees(model, X=normal(5, 3), z=normal(3), n=np.array(count))

"""Sequences and optionals, also where loops and branches pass them on, as ONNX Runtime has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import normal
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import EngineError

X, Y = normal(2, 3), normal(4, 3)


def _agrees(text: str, **inputs: Any) -> None:
    model = parse(text)
    expected, found = compile(model)(inputs), compile(model, engine="xla")(inputs)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert isinstance(found[name], list) == isinstance(value, list)
        arrays, others = (v if isinstance(v, list) else [v] for v in (value, found[name]))
        for array, other in zip(arrays, others, strict=True):
            assert other.dtype == array.dtype
            np.testing.assert_array_equal(other, array)


def test_edits() -> None:
    text = """(seq(float[N,3]) s, float[M,3] X, int64 k)
        => (seq(float[A,3]) t, seq(float[B,3]) u, seq(float[B,3]) v, float[C,3] Y, int64 n) {
        t = SequenceInsert(s, X, k)
        u = SequenceErase(t, k)
        v = SequenceErase(u)
        Y = SequenceAt(t, k)
        n = SequenceLength(v)
    }"""
    for place in (-1, 0, 1):
        _agrees(text, s=[X, Y], X=normal(1, 3), k=np.array(place))


@pytest.mark.parametrize("call", ["<axis = 0>(t)", "<axis = -1, new_axis = 1>(u)"])
def test_joins(call: str) -> None:
    text = f"""(float[2,3] X, float[4,3] Y) => (float[A,B,C] Z, seq(float[N,M]) t) {{
        t = SequenceConstruct(X, Y)
        u = SequenceConstruct(X, X)
        Z = ConcatFromSequence{call}
    }}"""
    text = text if "new_axis" in call else text.replace("[A,B,C]", "[A,B]")
    _agrees(text, X=X, Y=Y)


SPLITS = {
    "rows": ("", None),
    "without axis": ("<keepdims = 0>", None),
    "even": ("<axis = 1>", np.array(2)),
    "sizes": ("<axis = 0>", np.array([1, 3])),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits(name: str) -> None:
    attributes, sizes = SPLITS[name]
    rank = 0 if sizes is None else sizes.ndim
    given = "" if sizes is None else f", int64{'[2]' if rank else ''} k"
    shape = "[A]" if "keepdims" in attributes else "[A,B]"
    call = f"SplitToSequence{attributes}(Y{'' if sizes is None else ', k'})"
    text = f"(float[4,3] Y{given}) => (seq(float{shape}) s) {{ s = {call} }}"
    _agrees(text, Y=Y, **({} if sizes is None else {"k": sizes}))


def test_loops_append() -> None:
    text = """(float[4,3] Y, int64 n) => (seq(float[3]) s) <bool yes = {1}> {
        e = SequenceEmpty()
        s = Loop(n, yes, e) <body = b (int64 k, bool c, seq(float[3]) t)
            => (bool d, seq(float[3]) u) {
            d = Identity(c)
            y = Gather(Y, k)
            u = SequenceInsert(t, y)
        }>
    }"""
    for count in (3, 0, 4):
        _agrees(text, Y=Y, n=np.array(count))


def test_optionals() -> None:
    text = """(float[2,3] X, bool c) => (bool has, float[2,3] Y) {
        o = If(c) <then_branch = a () => (optional(float[2,3]) p) { p = Optional(X) },
            else_branch = b () => (optional(float[2,3]) q) {
                z = Add(X, X)
                q = Optional(z)
            }>
        has = OptionalHasElement(o)
        Y = OptionalGetElement(o)
    }"""
    for condition in (True, False):
        _agrees(text, X=X, c=np.array(condition))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "s = SequenceConstruct(X, X) Y = SequenceAt(s, k)",
            "SequenceAt 'SequenceAt' asks for position 2 of a sequence of 2. Let it lie between "
            "-2 and 1.",
        ),
        (
            "o = Optional<type = float[2,3]>() Y = OptionalGetElement(o)",
            "OptionalGetElement 'OptionalGetElement' is given an optional without an element. "
            "Ask OptionalHasElement first.",
        ),
    ],
)
def test_what_is_not_there_is_refused(body: str, message: str) -> None:
    text = f"(float[2,3] X) => (float[2,3] Y) <int64 k = {{2}}> {{ {body} }}"
    with pytest.raises(EngineError) as error:
        compile(parse(text), engine="xla")(X=X)
    assert str(error.value) == message


def test_maps_whose_body_has_operators_newer_than_the_definition() -> None:
    """ONNX defines `SequenceMap` in opset 17; ReduceMax has its axes as an input since 18."""
    text = """(seq(float[N,3]) s, float[3] X) => (seq(float[N]) t, seq(float[N,3]) u) {
        axes = Constant<value_ints = [1]>()
        t, u = SequenceMap(s, X) <
            body = b (float[N,3] a, float[3] c) => (float[N] d, float[N,3] e) {
            e = Add(a, c)
            d = ReduceMax<keepdims = 0>(e, axes)
        }>
    }"""
    for elements in ([X, Y], [Y]):
        _agrees(text, s=elements, X=normal(3))


@pytest.mark.parametrize("seed", ["", "<seed = 7.0>"])
def test_maps_draw_anew_for_each_element(seed: str) -> None:
    text = f"""(seq(float[N,3]) s) => (seq(float[N,3]) t) {{
        t = SequenceMap(s) <body = b (float[N,3] a) => (float[N,3] d) {{
            d = RandomNormalLike{seed}(a)
        }}>
    }}"""
    first, second = compile(parse(text), engine="xla")(s=[X, X])["t"]
    assert (first != second).all()

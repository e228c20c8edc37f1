"""Every output of a subgraph has a value of its own."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.graph.normalize import normalize
from whileback.graph.scopes import subgraphs

LEVELS = ("disabled", "basic", "all")


def run(text: str, level: str, **feeds: object) -> dict[str, list[float]]:
    """Run the normal form of a model: many of these ONNX Runtime gets wrong without."""
    arrays = {k: np.array(v, np.float32 if k != "n" else np.int64) for k, v in feeds.items()}
    if "c" in arrays:
        arrays["c"] = arrays["c"].astype(bool)
    result = compile(normalize(parse(text)), optimization=level, threads=1)(arrays)
    return {name: value.tolist() for name, value in result.items()}


def body(text: str) -> ir.Graph:
    model = normalize(parse(text))
    return next(inner for node in model.graph for inner in subgraphs(node))


@pytest.mark.parametrize("level", LEVELS)
def test_branch_that_lists_one_value_twice(level: str) -> None:
    text = """(float x, bool c) => (float y, float z) {
        y, z = If (c) <then_branch = t () => (float p, float p) { p = Exp(x) },
                       else_branch = e () => (float q, float q) { q = Neg(x) }> }"""
    assert run(text, level, x=0, c=True) == {"y": 1.0, "z": 1.0}
    assert run(text, level, x=2, c=False) == {"y": -2.0, "z": -2.0}


@pytest.mark.parametrize("level", LEVELS)
def test_branch_that_returns_an_outer_value(level: str) -> None:
    text = """(float x, bool c) => (float y) {
        a = Exp(x)
        y = If (c) <then_branch = t () => (float a) { }, else_branch = e () => (float x) { }> }"""
    assert run(text, level, x=0, c=True) == {"y": 1.0}
    assert run(text, level, x=0, c=False) == {"y": 0.0}


@pytest.mark.parametrize("level", LEVELS)
def test_scan_that_returns_its_inputs(level: str) -> None:
    text = """(float s, float[3] x) => (float t, float[3] y, float[3] z, float[3] w) {
        t, y, z, w = Scan <num_scan_inputs = 1, body = b (float a, float r)
          => (float a, float r, float r, float a) { }> (s, x) }"""
    got = run(text, level, s=5, x=[1, 2, 3])
    assert got == {"t": 5.0, "y": [1.0, 2.0, 3.0], "z": [1.0, 2.0, 3.0], "w": [5.0] * 3}


@pytest.mark.parametrize("level", LEVELS)
def test_loop_that_returns_its_inputs_and_one_value_twice(level: str) -> None:
    """ONNX Runtime does these right, but for the trip number, which it changes in place."""
    text = """(float x, int64 n) => (float y, float z, float[N] s, float[N] t, int64[N] u) {
        y, z, s, t, u = Loop (n, , x, x) <body = b (int64 i, bool c, float p, float q)
          => (bool c, float q, float r, float r, float p, int64 i) { r = Add(p, q) }> }"""
    assert [node.op_type for node in body(text)] == ["Add", "Identity"]
    got = run(text, level, x=1, n=3)
    assert got == {"y": 3.0, "z": 5.0, "s": [2, 3, 5], "t": [1, 1, 2], "u": [0, 1, 2]}


def test_condition_that_is_always_true_is_passed_on() -> None:
    text = """(float x, int64 n) => (float y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, x) <body = b (int64 i, bool c, float p) => (bool d, float r) {
          d = Constant <value = bool {1}> () r = Add(p, p) }> }"""
    graph = body(text)
    assert graph.outputs[0] is graph.inputs[1]
    assert [node.op_type for node in graph] == ["Add"]
    assert run(text, "all", x=1, n=3) == {"y": 8.0}


@pytest.mark.parametrize("start, want", [(True, 2.0), (False, 1.0)])
def test_condition_that_is_always_false_stays(start: bool, want: float) -> None:
    text = """(float x, int64 n, bool c) => (float y) {
        y = Loop (n, c, x) <body = b (int64 i, bool c0, float p) => (bool d, float r) {
          d = Constant <value = bool {0}> () r = Add(p, p) }> }"""
    assert run(text, "all", x=1, n=3, c=start) == {"y": want}


def test_condition_of_rank_one() -> None:
    text = """(float x, int64[1] n, bool[1] c) => (float y) {
        y = Loop (n, c, x) <body = b (int64[] i, bool[] c0, float p) => (bool[] d, float r) {
          d = Identity(c0) r = Add(p, p) }> }"""
    assert run(text, "all", x=1, n=[3], c=[True]) == {"y": 8.0}


def test_results_of_a_loop_that_are_left_out_get_names() -> None:
    text = """(float x, int64 n) => (float[N] s) {
        , s = Loop (n, , x) <body = b (int64 i, bool c, float p) => (bool d, float r, float q) {
          d = Identity(c) r = Add(p, p) q = Neg(r) }> }"""
    assert [v.name for v in normalize(parse(text)).graph[0].outputs] == ["Loop_0", "s"]
    assert run(text, "all", x=1, n=2) == {"s": [-2.0, -4.0]}

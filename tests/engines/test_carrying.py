"""What a model carries from call to call is what passing it as arguments gives, on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError

ENGINES = ("onnxruntime", "xla", "reference")
# A value that is carried as it is, one that grows, one of another type, and a swap.
MODELS = {
    "static": """(float[2] x, float[2] a, float[2] b, int64 n)
        => (float[2] a1, float[2] b1, int64 n1, float[2] y) {
        one = Constant<value_int = 1>()
        n1 = Add(n, one)
        a1 = Identity(b)
        b1 = Add(a, x)
        y = Mul(a, x)
    }""",
    "kept": "(float[2] x, float[2] a) => (float[2] a, float[2] y) { y = Mul(a, x) }",
    "growing": """(float[2] x, float[N] a) => (float[M] a1, float s) {
        a1 = Concat<axis = 0>(a, x)
        s = ReduceSum<keepdims = 0>(a1)
    }""",
    "twice": "(float[2] x, float[2] a, float[2] b) => (float[2] s, float[2] y) "
    "{ s = Add(a, x) y = Mul(b, x) }",
    "loop": """(float[2] x, float[2] a, int64 n) => (float[2] a1, int64 n1, float[T,2] y) {
        one = Constant<value_int = 1>()
        zero = Constant<value_int = 0>()
        n1 = Add(n, one)
        a1, rows = Loop(n, "", a) <body = trip (int64 i, bool c, float[2] v)
                                            => (bool d, float[2] w, float[2] r) {
            d = Identity(c)
            w = Add(v, x)
            r = Mul(w, v)
        }>
        y = CumSum(rows, zero)
    }""",
    "flags": "(bool[2] x, bool[2] a) => (bool[2] b, bool[2] y) { b = Xor(a, x) y = Not(a) }",
    "half": "(float16[2] x, bfloat16[2] a) => (bfloat16[2] b, float16[2] y) "
    "{ y = CastLike(a, x) z = Add(y, x) b = CastLike(z, a) }",
}
FOLLOWING = {
    "static": {"a": "a1", "b": "b1", "n": "n1"},
    "kept": {"a": "a"},
    "growing": {"a": "a1"},
    "twice": {"a": "s", "b": "s"},
    "loop": {"a": "a1", "n": "n1"},
    "flags": {"a": "b"},
    "half": {"a": "b"},
}


def first(model: ir.Model, following: dict[str, str]) -> dict[str, Any]:
    inputs = {value.name: value for value in model.graph.inputs}
    return {
        name: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(inputs[name].dtype.numpy())
        for name in following
        for shape in [tuple(d if isinstance(d, int) else 1 for d in inputs[name].shape)]
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_as_passed_by_hand(name: str, engine: str) -> None:
    model, following = parse(MODELS[name]), FOLLOWING[name]
    f = compile(model, engine)
    kept = first(model, following)
    given = {each: array.copy() for each, array in kept.items()}
    carrying = f.carrying(following, given)
    dtype = model.graph.inputs[0].dtype.numpy()
    for index in range(4):
        x = np.array([index + 0.5, -2.0], dtype)
        out = f(kept, x=x)
        kept = {old: out[new] for old, new in following.items()}
        results = carrying(x=x)
        assert list(results) == [each for each in out if each not in following.values()]
        for each, value in results.items():
            assert np.array_equal(value, out[each])
        for each, value in carrying.values.items():
            assert np.asarray(value).dtype == kept[each].dtype
            assert np.array_equal(value, kept[each])
    for each, array in first(model, following).items():
        assert np.array_equal(given[each], array)


SUM = """(float[N,2] x, float[2] total) => (float[2] sum, float[N,2] y)
    <int64[1] axes = {0}, float[2] total = {1, 2}> {
    rows = ReduceSum<keepdims = 0>(x, axes)
    sum = Add(total, rows)
    y = Mul(x, total)
}"""
GATHER = """(int64 i, float[2] total) => (float[2] sum, float item) {
    item = Gather(total, i)
    sum = Add(total, item)
}"""


@pytest.mark.parametrize("engine", ENGINES)
def test_defaults_and_other_sizes(engine: str) -> None:
    """Rows may be as many as they like, and lie in memory as they like."""
    model = parse(SUM)
    carrying = compile(model, engine).carrying({"total": "sum"})
    total = np.array([1, 2], "f")
    for rows in (3, 1, 3, 5):
        x = np.arange(4 * rows, dtype="f").reshape(rows, 4)[:, ::2]
        assert np.array_equal(carrying(x=x)["y"], x * total)
        total = total + x.sum(0)
        assert np.array_equal(carrying.values["total"], total)
    assert model.graph.initializers["total"].const_value.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_other_values(engine: str) -> None:
    carrying = compile(parse(SUM), engine).carrying({"total": "sum"}, {"total": [0.0, 0.0]})
    given = np.array([5, 6], "f")
    carrying.carry({"total": given})
    carrying(x=[[1.0, 1.0]])
    carrying(x=[[1.0, 1.0]])
    assert np.asarray(carrying.values["total"]).tolist() == [7, 8]
    assert given.tolist() == [5, 6]


@pytest.mark.parametrize("engine", ENGINES)
def test_defaults_of_other_inputs(engine: str) -> None:
    """Hold whenever these are left out, also after they were given."""
    model = parse("""(float[2] x, float[2] a, float by) => (float[2] b, float[2] y)
        <float by = {2}> { y = Mul(x, by) b = Add(a, y) }""")
    carrying = compile(model, engine).carrying({"a": "b"}, {"a": [0.0, 0.0]})
    for given, y in (({}, 2), ({"by": 3.0}, 3), ({"by": 4.0}, 4), ({}, 2), ({}, 2)):
        assert carrying(x=[1.0, 1.0], **given)["y"].tolist() == [y, y]
    assert np.asarray(carrying.values["a"]).tolist() == [13, 13]


@pytest.mark.parametrize("engine", ENGINES)
def test_first_values_may_lie_in_memory_as_they_like(engine: str) -> None:
    model = parse("(float[2,3] x, float[2,3] a) => (float[2,3] b) { b = Add(a, x) }")
    given = np.arange(6, dtype="f").reshape(3, 2).T
    carrying = compile(model, engine).carrying({"a": "b"}, {"a": given})
    carrying(x=np.ones((3, 2), "f").T)
    assert np.array_equal(carrying.values["a"], given + 1)
    carrying.carry({"a": given})
    assert np.array_equal(carrying.values["a"], given)


@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_what_fails_carries_nothing_on(engine: str) -> None:
    carrying = compile(parse(GATHER), engine).carrying({"total": "sum"}, {"total": [1.0, 2.0]})
    carrying(i=0)
    for _ in range(2):
        with pytest.raises(EngineError, match="failed to run model"):
            carrying(i=7)
        assert carrying.values["total"].tolist() == [2, 3]
    assert carrying(i=1)["item"] == 3


def test_onnx_runtime_reads_one_buffer_and_writes_the_other() -> None:
    carrying = compile(parse(SUM)).carrying({"total": "sum"})
    seen = []
    for _ in range(4):
        carrying(x=[[1.0, 1.0]])
        seen.append(carrying.values["total"].ctypes.data)
    assert seen[0] == seen[2] != seen[1] == seen[3]


@pytest.mark.parametrize(
    ("name", "trips", "is_spent"),
    [("static", "n", True), ("loop", "n", True), ("loop", "n1", False)],
)
def test_xla_writes_over_what_it_read(name: str, trips: str, is_spent: bool) -> None:
    """But not where a run may be made again, for a number of trips that only the run tells."""
    model, following = parse(MODELS[name].replace("Loop(n,", f"Loop({trips},")), FOLLOWING[name]
    carrying = compile(model, "xla").carrying(following, first(model, following))
    for _ in range(3):
        before = carrying.values["a"]
        carrying(x=np.ones(2, "f"))
        assert before.is_deleted() == is_spent


def test_errors() -> None:
    f = compile(parse(SUM))
    with pytest.raises(ArgumentError) as caught:
        f.carrying({"totals": "sum"})
    assert str(caught.value) == ("Model 'model' has no input 'totals'; did you mean 'total'?")
    with pytest.raises(ArgumentError) as caught:
        f.carrying({"total": "sums"})
    assert str(caught.value) == "Model 'model' has no output 'sums'; did you mean 'sum'?"
    with pytest.raises(ArgumentError) as caught:
        compile(parse(GATHER)).carrying({"total": "sum"})
    assert str(caught.value) == (
        "Model 'model' needs more inputs: 'total' FLOAT[2]. Pass each one by keyword, or all "
        "in one mapping from names to arrays (on the command line as NAME=VALUE)."
    )
    carrying = f.carrying({"total": "sum"})
    with pytest.raises(ArgumentError) as caught:
        carrying.carry({"total": np.zeros(3, "f")})
    assert str(caught.value) == (
        "Input 'total' is FLOAT[2], but got an array of float32 with shape (3,). "
        "Axis 0 must have size 2."
    )
    with pytest.raises(ArgumentError) as caught:
        carrying(x=[[1.0, 2.0]], total=[0.0, 0.0])
    assert str(caught.value) == "Model 'model' has no input 'total'; there are 1: 'x'"

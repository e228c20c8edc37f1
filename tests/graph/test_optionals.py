"""Models that compute with what is in optionals give what they gave before."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.graph.normalize import normalize
from whileback.graph.optionals import unwrap_optionals
from whileback.graph.scopes import definitions, walk, walk_graphs

# In every other trip there is something in t; also what was in it before is returned.
IN_SOME_TRIPS = """(int64 M, TYPE x) => (optional(TYPE) last, optional(TYPE) other, bool any) {
  start = Optional<type = TYPE>()
  full = Optional(x)
  last, other = Loop(M, , start, full)
    <body = b (int64 i, bool c, optional(TYPE) t, optional(TYPE) s)
      => (bool go, optional(TYPE) u, optional(TYPE) r) {
    go = Identity(c)
    h = OptionalHasElement(t)
    u = If(h) <
      then_branch = p () => (optional(TYPE) u1) { u1 = Optional<type = TYPE>() },
      else_branch = q () => (optional(TYPE) u2) { u2 = Optional(x) }>
    r = Identity(t)
  }>
  any = OptionalHasElement(last)
}"""
DECLARED_A_SEQUENCE = """(int64 M, float[2] x) => (seq(float[2]) last, bool any) {
  start = Optional<type = seq(float[2])>()
  last = Loop(M, , start)
    <body = b (int64 i, bool c, optional(seq(float[2])) t) => (bool go, seq(float[2]) u) {
    go = Identity(c)
    h = OptionalHasElement(t)
    v = If(h) <
      then_branch = p () => (seq(float[2]) p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (seq(float[2]) q1) { q1 = SequenceConstruct(x) }>
    u = SequenceInsert(v, x)
  }>
  any = OptionalHasElement(last)
}"""
AN_INPUT = """(int64 M, float[2] x, optional(float[2]) o)
  => (optional(float[2]) y, bool any, optional(float[2]) same) {
  y = Loop(M, , o)
    <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
    go = Identity(c)
    h = OptionalHasElement(t)
    v = If(h) <
      then_branch = p () => (float[2] p1) { p1 = OptionalGetElement(t) },
      else_branch = q () => (float[2] q1) { q1 = Neg(x) }>
    w = Mul(v, x)
    u = Optional(w)
  }>
  any = OptionalHasElement(o)
  same = Identity(o)
}"""
NOTHING = """(optional(float[2]) o) => (float[2] y, bool none) {
  y = OptionalGetElement(o)
  none = OptionalHasElement()
}"""
X = np.array([0.5, -1.25], np.float32)


def unwrapped(text: str) -> ir.Model:
    """Return the model, which must be valid, and have no optionals but at its ends."""
    model = normalize(parse(text))
    ends = [(value.name, value.type, value.shape) for value in model.graph.outputs]
    unwrap_optionals(model.graph)
    assert [(value.name, value.type, value.shape) for value in model.graph.outputs] == ends
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


def same(want: Any, got: Any) -> bool:
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(same, want, got))
    return (want is None) == (got is None) and np.array_equal(want, got)


def assert_same(text: str, arguments: dict[str, Any]) -> None:
    want = compile(parse(text))(arguments)
    for level in ("disabled", "all"):
        got = compile(unwrapped(text), optimization=level)(arguments)
        assert want.keys() == got.keys()
        assert all(same(want[name], got[name]) for name in want), f"{want} became {got}"


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
@pytest.mark.parametrize(
    ("type_", "x"),
    [
        ("float[2]", X),
        ("float[N]", X),
        ("double[2]", X.astype(np.float64)),
        ("float16[2]", X.astype(np.float16)),
        ("int64", np.array(3)),
        ("bool[2]", np.array([True, False])),
        ("string[2]", np.array(["a", "b"], object)),
        ("string[N]", np.array(["a", "b"], object)),
        ("seq(float[2])", [X, -X]),
        ("seq(int64[N])", [np.arange(2), np.arange(3)]),
        ("seq(string)", [np.array("a", object)]),
    ],
)
def test_optionals_of_any_type(type_: str, x: Any, trips: int) -> None:
    assert_same(IN_SOME_TRIPS.replace("TYPE", type_), {"M": np.array(trips), "x": x})


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_a_loop_that_declares_a_sequence(trips: int) -> None:
    assert_same(DECLARED_A_SEQUENCE, {"M": np.array(trips), "x": X})


@pytest.mark.parametrize("trips", [0, 1, 7])
@pytest.mark.parametrize("o", [None, X])
def test_inputs_that_are_optionals(o: np.ndarray | None, trips: int) -> None:
    assert_same(AN_INPUT, {"M": np.array(trips), "x": X, "o": o})


def test_what_is_not_there_cannot_be_read() -> None:
    run = compile(unwrapped(NOTHING))
    results = run(o=X)
    assert results["y"].tolist() == X.tolist() and not results["none"]
    with pytest.raises(EngineError, match="OptionalGetElement on an optional type OrtValue which"):
        run(o=None)


@pytest.mark.parametrize(
    "text", [IN_SOME_TRIPS.replace("TYPE", "float[2]"), DECLARED_A_SEQUENCE, AN_INPUT]
)
def test_nothing_inside_is_an_optional(text: str) -> None:
    graph = unwrapped(text).graph
    loop = next(node for node in walk(graph) if node.op_type == "Loop" and node.name == "Loop")
    inside = [v for g in walk_graphs(loop.attributes["body"].as_graph()) for v in definitions(g)]
    assert not any(isinstance(value.type, ir.OptionalType) for value in inside)


def test_what_is_always_there_needs_no_boolean() -> None:
    graph = unwrapped(
        """(int64 M, float[2] x) => (float[2] y) {
          start = Optional(x)
          last = Loop(M, , start)
            <body = b (int64 i, bool c, optional(float[2]) t) => (bool go, optional(float[2]) u) {
            go = Identity(c)
            v = OptionalGetElement(t)
            w = Sin(v)
            u = Optional(w)
          }>
          y = OptionalGetElement(last)
        }"""
    ).graph
    assert [node.op_type for node in walk(graph)] == [
        "Identity", "Loop", "Identity", "Identity", "Sin", "Identity", "Identity"
    ]  # fmt: skip


def test_a_question_is_not_asked_again() -> None:
    graph = unwrapped(DECLARED_A_SEQUENCE).graph
    (body,) = (n.attributes["body"].as_graph() for n in graph if n.name == "Loop")
    assert [node.op_type for node in walk(body)] == [
        "Identity", "Identity", "If", "Identity", "SequenceConstruct", "SequenceInsert", "Identity"
    ]  # fmt: skip


def test_models_without_optionals_stay_as_they_are() -> None:
    model = normalize(parse("(float[2] x) => (float[2] y) { y = Sin(x) }"))
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    unwrap_optionals(model.graph)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before

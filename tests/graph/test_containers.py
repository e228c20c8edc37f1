"""What is known of the elements of sequences."""

from __future__ import annotations

import pytest
from tests.judge import parse

from whileback.graph.containers import is_sequence
from whileback.graph.normalize import normalize
from whileback.graph.scopes import definitions, walk, walk_graphs
from whileback.graph.shapes import describe


def inferred(body: str, inputs: str = "float[B,3] x, float[2,3] z, int64 i") -> dict[str, str]:
    """Return the types of the values that a body makes, sequences with what elements share."""
    model = normalize(parse(f"({inputs}) => (int64 n) {{ {body} n = Identity(i) }}"))
    found = {}
    for node in walk(model.graph):
        for value in node.outputs:
            dims = [] if value.shape is None else value.shape
            shown = ",".join(str(dim if isinstance(dim, int) else dim.value) for dim in dims)
            text = None if value.shape is None else f"[{shown}]"
            found[str(value.name)] = text if is_sequence(value) else describe(value)
    return found


def test_elements_declared_to_be_scalars_may_be_anything() -> None:
    model = normalize(
        parse(
            """(int64 M, seq(float) x, float[2] z) => (float[2] y) {
              start = Optional<type = seq(float)>()
              s = Loop(M, , x) <body = b (int64 i, bool c, seq(float) p) => (bool d, seq(float) q) {
                d = Identity(c)
                q = SequenceInsert(p, z)
              }>
              y = SequenceAt(s, M)
            }"""
        )
    )
    values = [value for graph in walk_graphs(model.graph) for value in definitions(graph)]
    assert [value.shape for value in values if is_sequence(value)] == [None] * 5


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s = SequenceConstruct(z, z)", {"s": "[2,3]"}),
        ("s = SequenceConstruct(x, x) t = SequenceAt(s, i)", {"s": "[B,3]", "t": "FLOAT[B,3]"}),
        ("s = SequenceConstruct(x, z)", {"s": "[None,3]"}),
        ("s = SequenceEmpty() t = SequenceInsert(s, z)", {"s": None, "t": "[2,3]"}),
        ("s = SequenceConstruct(z, z) t = SequenceInsert(s, x)", {"t": "[None,3]"}),
        ("s = SequenceConstruct(z, z) t = SequenceErase(s)", {"t": "[2,3]"}),
        ("s = SplitToSequence(x)", {"s": "[1,3]"}),
        ("s = SplitToSequence<axis = -1, keepdims = 0>(x)", {"s": "[B]"}),
        ("s = SplitToSequence<axis = 1>(x, i)", {"s": "[B,None]"}),
        ("s = SplitToSequence<axis = 1, keepdims = 0>(x, i)", {"s": None}),
        (
            "s = SequenceConstruct(z, z) y = ConcatFromSequence<axis = -1, new_axis = 0>(s)",
            {"y": "FLOAT[2,_d0]"},
        ),
        (
            "s = SequenceConstruct(z, z) y = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
            {"y": "FLOAT[2,3,_d0]"},
        ),
        (
            "s = SequenceConstruct(x, z) "
            "t = SequenceMap(s, x) <body = b (float[N,3] a, float[B,3] c) => (float[M,3] d) "
            "{ d = Neg(a) }>",
            {"t": "[None,3]"},
        ),
    ],
)
def test_what_elements_have_in_common(body: str, expected: dict[str, str | None]) -> None:
    found = inferred(body)
    assert {name: found[name] for name in expected} == expected


def test_elements_of_unnamed_sizes_do_not_have_the_same_size() -> None:
    body = "s = SequenceConstruct(x, z) t = SequenceAt(s, i) u = SequenceAt(s, i)"
    found = inferred(body)
    assert found["t"] != found["u"]


def test_symbols_of_an_input_mean_no_more_than_an_unknown_size() -> None:
    body = "t = SequenceAt(s, i) u = SequenceAt(s, i)"
    found = inferred(body, "seq(float[N,3]) s, int64 i")
    assert found["t"] != found["u"]


def test_a_body_does_not_mix_up_its_sizes_with_those_outside() -> None:
    body = """s = SequenceConstruct(x, z)
      t = SequenceMap(s) <body = b (float[B,3] a) => (float[B,3] c) { c = Neg(a) }>"""
    found = inferred(body)
    assert found["c"].endswith(",3]")
    assert "B" not in found["c"]

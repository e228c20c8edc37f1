"""The document of a model: what is in it, where it stands, and what is not in it."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback import gradient, training
from whileback.page.document import Document, Section, Value, to_data
from whileback.page.reading import read as read_model
from whileback.page.sections import FLAT, split

LOOP = """(int64 M, float[2] x, float[2] w) => (float[2] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] n) {
    go = Identity(c)
    n = Mul(v, w)
  }>
}"""


def read(model: ir.Model) -> Document:
    return read_model(model).document()


def test_values_nodes_and_graphs() -> None:
    document = read(parse("(float[N] x) => (float[N] y) { h = Elu <alpha = 0.5> (x) y = Neg(h) }"))
    assert document.values == tuple(Value(name, "FLOAT[N]") for name in "xhy")
    elu, neg = document.nodes
    assert (elu.operator, elu.inputs, elu.outputs) == ("Elu", (0,), (1,))
    assert elu.attributes == {"alpha": "0.5"}
    assert neg.inputs == (1,)
    (graph,) = document.graphs
    assert (graph.inputs, graph.outputs, graph.lanes) == ((0,), (2,), {"forward": (0, 1)})


def test_a_gradient_stands_beside_what_it_stems_from() -> None:
    document = read(gradient(parse(LOOP), of="y", wrt=["x", "w"], reduce="sum"))
    for node in document.nodes:
        assert (node.lane == "gradient") == bool(node.origin) == (node.source is not None)
    inner = [node for node in document.nodes if node.operator == "Mul" and node.lane == "gradient"]
    assert {document.nodes[node.source or 0].operator for node in inner} >= {"Mul"}
    assert document.graphs[0].upward


def test_a_tape_is_told_as_it_is_noted() -> None:
    document = read(gradient(parse(LOOP), of="y", wrt=["x", "w"], reduce="sum"))
    (loop,) = (node for node in document.nodes if node.tape is not None)
    assert loop.tape is not None
    assert [(row.name, row.size, row.why) for row in loop.tape.rows] == [
        ("v", 8, "carried into the trip")
    ]


def test_what_is_computed_from_gradients_follows_them() -> None:
    model = parse("(float[N,2] x, float[2,2] w) => (float[N,2] y) { y = MatMul(x, w) }")
    value = model.graph.inputs.pop()
    value.const_value = ir.tensor(np.eye(2, dtype=np.float32))
    model.graph.register_initializer(value)
    document = read(training.step(model, loss="mse", optimizer="adam"))
    lanes = {node.lane: node for node in document.nodes}
    assert set(lanes) == {"forward", "gradient", "update"}
    updated = {n for node in document.nodes if node.lane == "update" for n in node.outputs}
    outputs = {document.values[n].name: n for n in document.graphs[0].outputs}
    assert {name for name, n in outputs.items() if n in updated} == set(outputs) - {"loss"}


def test_constants_are_shown_where_they_are_read() -> None:
    document = read(
        parse("(float[2] x) => (float[2] y) { c = Constant <value_float = 2.0> () y = Mul(x, c) }")
    )
    assert [node.operator for node in document.nodes] == ["Mul"]
    assert [value.constant for value in document.values] == ["", "2.0", ""]


def test_weights_stay_away() -> None:
    weights = np.arange(70_000, dtype=np.float32).reshape(70, 1000) + 0.25
    model = parse("(float[N,70] x, float[70,1000] w) => (float[N,1000] y) { y = MatMul(x, w) }")
    given = model.graph.inputs.pop()
    given.const_value = ir.tensor(weights)
    model.graph.register_initializer(given)
    text = json.dumps(to_data(read(model)))
    assert "70000 values, 0.25 … 69999.2" in json.loads(text)["values"][1]["constant"]
    assert len(text) < 1000


def test_a_function_is_unfolded_where_it_is_called() -> None:
    document = read(
        ir.from_onnx_text(
            """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
            f (float[2] x) => (float[2] y) { y = own.twice(x) }
            <opset_import: ["" : 21], domain: "own"> twice (a) => (b) { b = Add(a, a) }"""
        )
    )
    call, add = document.nodes
    assert (call.operator, call.bodies, add.operator) == ("own::twice", (1,), "Add")
    assert document.graphs[1].title == "own::twice"


def test_a_body_that_a_function_is_given_is_an_attribute() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        f (float[2] x, bool c) => (float[2] y) { y = own.pick(x, c) }
        <opset_import: ["" : 21], domain: "own"> pick (a, c) => (b) {
            b = If(c) <then_branch = yes () => (float[2] p) { p = Neg(a) },
                       else_branch = no () => (float[2] q) { q = Exp(a) }> }"""
    )
    (function,) = model.functions.values()
    given = ir.RefAttr("then_branch", "body", ir.AttributeType.GRAPH)
    function[0].attributes["then_branch"] = given
    document = read(model)
    assert [graph.title for graph in document.graphs] == ["f", "own::pick", "else_branch"]
    assert document.nodes[1].attributes == {"then_branch": "@body"}


def test_a_function_that_calls_itself_is_not_unfolded() -> None:
    document = read(
        ir.from_onnx_text(
            """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
            f (float[2] x) => (float[2] y) { z = own.plain(x) y = own.even(z) }
            <opset_import: ["" : 21, "own" : 1], domain: "own"> even (a) => (b) { b = own.odd(a) }
            <opset_import: ["" : 21, "own" : 1], domain: "own"> odd (a) => (b) { b = own.even(a) }
            <opset_import: ["" : 21, "own" : 1], domain: "own"> plain (a) => (b) { b = Neg(a) }"""
        )
    )
    bodies = {node.operator: node.bodies for node in document.nodes}
    assert bodies == {"own::plain": (3,), "own::even": (), "own::odd": (), "Neg": ()}


def test_long_texts_are_cut() -> None:
    model = parse("(float x) => (float y) { y = Neg(x) }")
    model.graph[0].doc_string = "d" * 10_000
    model.graph[0].attributes.add(ir.AttrString("note", "n" * 10_000))
    (node,) = read(model).nodes
    assert len(node.doc) == 4000
    assert len(node.attributes["note"]) == 300
    assert node.doc[-1] == node.attributes["note"][-1] == "…"


def sizes(items: tuple[int | Section, ...]) -> list[int]:
    inner = [item for item in items if isinstance(item, Section)]
    return [len(items), *(size for item in inner for size in sizes(item.items))]


def test_long_lists_are_split_evenly() -> None:
    for count in (FLAT, FLAT + 1, 600, 5000, 20_000):
        items = split(range(count), lambda _: ())
        assert max(sizes(items)) <= FLAT
        assert list(Section("", items).nodes()) == list(range(count))


def test_sections_begin_where_names_change() -> None:
    items = split(range(300), lambda node: ("encoder", f"layer{node // 18}"))
    sections = [item for item in items if isinstance(item, Section)]
    starts = [next(section.nodes()) for section in sections]
    assert all(start % 18 == 0 for start in starts)
    assert sections[1].title.startswith("layer1 ")


def test_the_gradient_has_the_sections_of_the_model() -> None:
    chain = " ".join(f"h{i + 1} = Sin(h{i})" for i in range(100))
    document = read(
        gradient(parse(f"(float h0) => (float h100) {{ {chain} }}"), of="h100", wrt="h0")
    )
    forward, backward = (document.graphs[0].lanes[lane] for lane in ("forward", "gradient"))
    titles = [item.title for item in forward if isinstance(item, Section)]
    mirrored = [item.title for item in backward if isinstance(item, Section)]
    assert mirrored == [f"∂ {title}" for title in reversed(titles)]
    assert all(a != b for a, b in pairwise(mirrored))


@pytest.mark.parametrize(
    "body",
    [
        "{ y = Neg(nothing) }",
        "{ y = MatMul(x, x, x) }",
        "{ y = If(x) }",
        "{ y = Loop(x) <body = 3> }",
        "{ y = NoSuchOperator(x) }",
        "{ y = Constant() }",
        "{ y = Constant<own = 3>() }",
        "{ y = Constant<value = 3>() }",
        '{ y = Constant<value_floats = "three">() }',
    ],
)
def test_what_is_not_valid_is_shown(body: str) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> f (float[2] x) => (float[2] y) {body}'
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert [node.operator for node in read(model).nodes] == [model.graph[0].op_type]

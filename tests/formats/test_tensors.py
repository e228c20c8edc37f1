"""Every place of a model that holds a tensor is found, named, and can be exchanged."""

import onnx_ir as ir
import pytest

from whileback.errors import UnsupportedError
from whileback.formats.tensors import places

MODEL = """<ir_version: 10, opset_import: ["" : 21, "l" : 1]>
g (float x, bool c) => (float y) <float w = {0}> {
   a = Constant <value = float {1}> ()
   [choice] b = If(c) <then_branch = t () => (float p) <float v = {2}> { p = Neg(v) },
                       else_branch = e () => (float q) { q = Constant <value = float {3}> () }>
   d = l.f(b)
   y = Sum(a, d, w)
}
<domain: "l", opset_import: ["" : 21]>
f (k) => (o) {
   m = Constant <value = float {4}> ()
   o = Add(k, m)
}"""


def values(model: ir.Model) -> dict[str, float]:
    return {place.where: float(place.tensor.numpy()) for place in places(model)}


def test_all_places_are_named() -> None:
    assert values(ir.from_onnx_text(MODEL)) == {
        "initializer 'w' of graph 'g'": 0,
        "attribute 'value' of node 'a' (Constant) in graph 'g'": 1,
        "initializer 'v' of graph 't'": 2,
        "attribute 'value' of node 'q' (Constant) in graph 'e'": 3,
        "attribute 'value' of node 'm' (Constant) in function l::f": 4,
    }


def test_all_places_can_be_exchanged() -> None:
    model = ir.from_onnx_text(MODEL)
    for place in list(places(model)):
        place.put(ir.tensor(place.tensor.numpy() + 10, name=place.tensor.name))
    assert list(values(model).values()) == [10, 11, 12, 13, 14]


def test_lists_of_tensors_and_of_graphs() -> None:
    inner = ir.Graph([], [], nodes=[], name="inner")
    inner.register_initializer(ir.Value(name="i", const_value=ir.tensor(3.0, name="i")))
    node = ir.node(
        "Custom",
        [],
        attributes={"ts": [ir.tensor(1.0), ir.tensor(2.0)], "gs": [inner]},
        domain="my",
        name="n",
    )
    model = ir.Model(ir.Graph([], [], nodes=[node], name="g"), ir_version=10)
    for place in list(places(model)):
        place.put(ir.tensor(place.tensor.numpy() * 2, name=place.tensor.name))
    found = [(place.where, float(place.tensor.numpy())) for place in places(model)]
    assert found == [
        ("attribute 'ts' of node 'n' (Custom) in graph 'g'", 2),
        ("attribute 'ts' of node 'n' (Custom) in graph 'g'", 4),
        ("initializer 'i' of graph 'inner'", 6),
    ]


def test_references_to_attributes_of_a_function_hold_nothing() -> None:
    node = ir.Node("", "Constant", [], [ir.RefAttr("value", "v", ir.AttributeType.TENSOR)])
    assert list(places(ir.Model(ir.Graph([], [], nodes=[node], name="g"), ir_version=10))) == []


def test_nesting_too_deep() -> None:
    graph = ir.Graph([], [], nodes=[], name="leaf")
    for _ in range(31):
        graph = ir.Graph([], [], nodes=[ir.node("If", [], {"then_branch": graph})], name="g")
    with pytest.raises(UnsupportedError) as caught:
        list(places(ir.Model(graph, ir_version=10)))
    assert str(caught.value) == (
        "graph 'leaf' is nested 31 subgraphs deep, and a file holds at most 30; "
        "move inner bodies outwards"
    )

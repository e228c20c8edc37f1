"""What changed from one model to another, and what did not although it looks different."""

import random
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

import whileback
from whileback.comparing.difference import Difference

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[2,3] x, int64 n) => (float[2,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
    one = Constant <value = float {1}> ()
    a = MatMul (x, w)
    b = Tanh (a)
    c = Loop (n, "", b) <body = trip (int64 i, bool go, float[2,3] v) => (bool on, float[2,3] u) {
        on = Identity (go)
        t = Softmax <axis = 1> (v)
        u = Add (t, one)
    }>
    d = Softmax <axis = 0> (c)
    y = Add (d, x)
}"""


def diff(*changes: tuple[str, str]) -> Difference:
    other = MODEL
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    return whileback.diff(ir.from_onnx_text(MODEL), ir.from_onnx_text(other))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [('"" : 21', '"" : 22'), ("net (", "web (")],
            "model: 2 changed\n  ~ graph name: net → web\n  ~ opset ai.onnx: 21 → 22",
        ),
        (
            [("float[2,3] x, int64 n", "int64 n, float[N,3] x")],
            "inputs and outputs: 2 changed\n"
            "  ~ input x: FLOAT[2,3] → FLOAT[N,3]\n"
            "  ~ order of inputs: x, n → n, x",
        ),
        (
            [("5, 6", "5.5, 6")],
            "weights and constants: 1 changed, 1 the same\n"
            "  ~ w : FLOAT[3,3]: off by 0.03 of its norm, by at most 0.5 at [1,1], "
            "in 1 of 9 elements",
        ),
        (
            [("Tanh", "Elu <alpha = 0.5>")],
            "nodes: 1 changed, 7 the same\n"
            "  ~ b = Tanh(a)\n      Tanh → Elu\n      alpha: not set → 0.5",
        ),
        (
            [("u = Add (t, one)", "u = Add (s, one)  s = Neg (t)"), ("axis = 1", "axis = -1")],
            "nodes: 1 added, 2 changed, 6 the same\n"
            "  in c/body:\n"
            "    ~ t = Softmax(v, axis=1)\n        axis: 1 → -1\n"
            "    ~ u = Add(t, 1.0)\n        input 0: t → s\n"
            "    + s = Neg(t)",
        ),
        (
            [("b = Tanh (a)", ""), ('(n, "", b)', '(n, "", a)')],
            "nodes: 1 removed, 1 changed, 6 the same\n"
            "  - b = Tanh(a)\n"
            "  ~ c = Loop(n, -, b)\n      input 2: b → a",
        ),
    ],
)
def test_changes(changes: list[tuple[str, str]], expected: str) -> None:
    assert str(diff(*changes)) == expected


def test_names_inside_and_the_order_of_nodes_are_no_change() -> None:
    model, other = ir.from_onnx_text(MODEL), ir.from_onnx_text(MODEL)
    renamed(other, lambda name: f"{name[::-1]}_new")
    nodes = list(other.graph)
    other.graph.remove(nodes[0])
    other.graph.insert_after(nodes[2], nodes[0])
    found = whileback.diff(model, other)
    assert found.is_empty
    assert str(found) == ("no difference\n7 values inside have other names, which changes nothing")


def renamed(model: ir.Model, rename: Callable[[str], str]) -> None:
    kept = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    for graph in model.graphs():
        values = [v for node in graph for v in node.outputs] + list(graph.initializers.values())
        for value in values:
            if value.name not in kept:
                value.name = rename(str(value.name))


@pytest.mark.parametrize("seed", range(5))
def test_one_change_is_found_among_nodes_that_are_all_alike(seed: int) -> None:
    """All names are other ones, and so are all weights, as in a model exported and trained anew."""
    rng = random.Random(seed)
    place = rng.randrange(1, 40)
    found = whileback.diff(chain("a", 40, None, 0), chain("b", 40, place, 1))
    nodes = [change for change in found.changes if change.part == "node"]
    assert [(change.kind, change.text) for change in nodes if change.kind == "added"] == [
        ("added", f"extra = Neg(b{place - 1})")
    ]
    assert len(nodes) == 2
    weights = [change for change in found.changes if change.part == "initializer"]
    assert {change.kind for change in weights} == {"changed"}
    assert len(weights) == 20


def chain(prefix: str, length: int, extra: int | None, seed: int) -> ir.Model:
    rng = np.random.default_rng(seed)
    x = ir.val("x", ir.DataType.FLOAT, [2, 2])
    graph = ir.Graph([x], [], nodes=[], name="chain", opset_imports={"": 21})
    value = x
    for place in range(length):
        if place == extra:
            graph.append(ir.node("Neg", [value]))
            value = graph[-1].outputs[0]
            value.name = "extra"
        operands = [value]
        if place % 2 == 0:
            tensor = ir.tensor(rng.normal(size=(2, 2)).astype(np.float32), name=f"{prefix}w{place}")
            weight = ir.val(str(tensor.name), ir.DataType.FLOAT, [2, 2], const_value=tensor)
            graph.register_initializer(weight)
            operands.append(weight)
        graph.append(ir.node("Tanh" if place % 2 else "MatMul", operands))
        value = graph[-1].outputs[0]
        value.name = f"{prefix}{place}" if place < length - 1 else "y"
    graph.outputs.append(value)
    return ir.Model(graph, ir_version=10)


def test_a_gradient_model_has_all_that_the_model_has() -> None:
    model = ir.from_onnx_text(MODEL)
    found = whileback.diff(model, whileback.vjp(model, "y", "w"))
    assert {(c.kind, c.name) for c in found.changes if c.part in ("input", "output")} == {
        *(("added", "y_grad"), ("added", "w_grad"), ("added", "w")),
    }
    gone = [c.text for c in found.changes if c.part == "node" and c.kind == "removed"]
    assert gone == ["on = Identity(go)"]  # A copy, which nobody needs.
    assert found.same["initializer"] == 2


def test_functions_are_compared() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
    main (float x) => (float y) { y = my.f (x) }
    <domain: "my", opset_import: ["" : 21]> f (a) => (b) { c = Neg (a)  b = Exp (c) }"""
    model, other = ir.from_onnx_text(text), ir.from_onnx_text(text.replace("Exp", "Sin"))
    assert str(whileback.diff(model, other)) == (
        "nodes: 1 changed, 2 the same\n  in function my::f:\n    ~ b = Exp(c)\n        Exp → Sin"
    )
    none = ir.from_onnx_text(text.partition("<domain")[0].replace("my.f", "Neg"))
    assert "- function my::f" in str(whileback.diff(model, none))


@pytest.mark.parametrize("back", [False, True])
def test_one_of_two_weights_of_the_same_contents_has_changed(back: bool) -> None:
    """As scales that all were ones before training; nodes still read what they read."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    m (float[2] x) => (float[2] y) <float[2] s = {1, 1}, float[2] t = {1, 1}, float[2] u = {1, 1}> {
        a = Mul (x, s)  b = Mul (a, t)  y = Mul (b, u)
    }"""
    texts = (text, text.replace("t = {1, 1}", "t = {1, 3}"))
    models = [ir.from_onnx_text(each) for each in (reversed(texts) if back else texts)]
    norm = "0.63" if back else "1.4"
    assert str(whileback.diff(*models)) == (
        "weights and constants: 1 changed, 2 the same\n"
        f"  ~ t : FLOAT[2]: off by {norm} of its norm, by at most 2 at [1], in 1 of 2 elements"
    )


def test_weights_that_were_joined_are_the_same() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    m (float[2] x) => (float[2] y) <float[2] s = {1, 1}, float[2] t = {1, 1}> {
        a = Mul (x, s)  y = Mul (a, t)
    }"""
    joined = text.replace(", float[2] t = {1, 1}", "").replace("(a, t)", "(a, s)")
    assert whileback.diff(ir.from_onnx_text(text), ir.from_onnx_text(joined)).is_empty


def test_not_a_number_and_texts() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    m () => (float[2] a, string[1] b) <float[2] w = {1, 2}, string[1] s = {"old"}>
    { a = Identity (w)  b = Identity (s) }"""
    model, other, again = (ir.from_onnx_text(text) for _ in range(3))
    for each in (other, again):
        each.graph.initializers["w"].const_value = ir.tensor(np.array([np.nan, 2], np.float32))
    other.graph.initializers["s"].const_value = ir.StringTensor([b"new"], shape=ir.Shape([1]))
    assert sorted(str(whileback.diff(model, other)).splitlines()[1:]) == [
        "  ~ s : STRING[1]: 1 of 1 elements",
        "  ~ w : FLOAT[2]: off by inf of its norm, by at most inf at [0], in 1 of 2 elements",
    ]
    assert whileback.diff(again, again).is_empty


def test_one_screen_first() -> None:
    found = whileback.diff(chain("a", 200, None, 0), chain("a", 200, None, 1))
    assert str(found).splitlines()[-1] == "  … 92 more, which --all shows"
    assert len(str(found).splitlines()) == 10
    assert len(found.to_text(everything=True).splitlines()) == 101


def test_nodes_without_results() -> None:
    before, after = ir.from_onnx_text(MODEL), ir.from_onnx_text(MODEL)
    after.graph.append(ir.Node("", "Neg", [after.graph.inputs[0]], num_outputs=0))
    assert "  +  = Neg(x)" in str(whileback.diff(before, after)).splitlines()

"""Two models in one document: what is there now, what was, and what was there before."""

from __future__ import annotations

import onnx_ir as ir
from tests.judge import parse

from whileback.comparing.compare import compare
from whileback.page.document import Document
from whileback.page.merging import merge
from whileback.page.reading import read

LOOP = """(int64 M, float[2] x) => (float[2] y) {{
  y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {{
    go = Identity(c)
    {body}
  }}>
}}"""


def merged(before: ir.Model, after: ir.Model) -> Document:
    found, reading = compare(before, after), read(after)
    merge(read(before), reading, found.nodes, found.values, found.details)
    return reading.document()


def marks(document: Document) -> dict[str, str]:
    return {node.operator: node.change.kind for node in document.nodes if node.change}


def test_the_same_has_no_marks() -> None:
    model = parse(LOOP.format(body="w = Sin(v)"))
    assert merged(model, model) == read(model).document()


def test_inside_of_a_body() -> None:
    one, two = (parse(LOOP.format(body=body)) for body in ("w = Sin(v)", "w = Sin(h) h = Exp(v)"))
    assert marks(merged(one, two)) == {"Exp": "added", "Sin": "changed"}
    document = merged(two, one)
    assert marks(document) == {"Exp": "removed", "Sin": "changed"}
    assert sorted(body_of(document, "Loop")) == ["Exp", "Identity", "Sin"]


def body_of(document: Document, operator: str) -> list[str]:
    (node,) = (node for node in document.nodes if node.operator == operator)
    (body,) = (document.graphs[number] for number in node.bodies)
    return [document.nodes[n].operator for n in body.lanes["forward"] if isinstance(n, int)]


def test_a_body_comes_with_the_loop_that_is_gone() -> None:
    loop = (
        LOOP.format(body="w = Sin(v)")
        .replace("y = Loop", "h = Loop")
        .replace("}>", "}> y = Abs(h)")
    )
    document = merged(parse(loop), parse("(int64 M, float[2] x) => (float[2] y) { y = Abs(x) }"))
    assert marks(document) == {
        "Abs": "changed", "Loop": "removed", "Identity": "removed", "Sin": "removed",
    }  # fmt: skip
    assert body_of(document, "Loop") == ["Identity", "Sin"]


def test_a_body_stays_with_what_stands_for_its_loop() -> None:
    plain = parse("(int64 M, float[2] x) => (float[2] y) { y = Cos(x) }")
    document = merged(parse(LOOP.format(body="w = Sin(v)")), plain)
    assert marks(document) == {"Cos": "changed", "Identity": "removed", "Sin": "removed"}
    assert body_of(document, "Cos") == ["Identity", "Sin"]


def test_what_was_removed_reads_what_is_there_and_makes_what_is_not() -> None:
    text = "(float[2] x) => (float[2] y) {{ a = Sin(x) {} y = Neg({}) }}"
    document = merged(parse(text.format("b = Exp(a)", "b")), parse(text.format("", "a")))
    (gone,) = (node for node in document.nodes if node.operator == "Exp")
    (there,) = (node for node in document.nodes if node.operator == "Sin")
    assert gone.inputs == there.outputs
    made = [n for node in document.nodes for n in node.outputs]
    assert len(made) == len(set(made)) == 3


def test_inferred_types_are_no_change() -> None:
    plain = parse("(float[?] x) => (float[?] y) { h = Exp(x) y = Neg(h) }")
    typed = parse("(float[?] x) => (float[?] y) { g = Exp(x) y = Neg(g) }")
    typed.graph[0].outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    typed.graph[0].outputs[0].shape = ir.Shape([None])
    document = merged(plain, typed)
    assert not marks(document)
    assert all(value.type.startswith("FLOAT") for value in document.values)

"""Names with two definitions, and operators that are not as ONNX defines them."""

from __future__ import annotations

import pytest
from tests.judge import parse

from whileback.errors import GraphError
from whileback.graph.normalize import normalize


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "(float x) => (float y) { a = Exp(x) y = Foo(a) }",
            "Node 'y' (ai.onnx@21::Foo) names no operator of opset 21 (did you mean 'Floor' or "
            "'Loop'?). Correct the model.",
        ),
        (
            "(float x, int64 i) => (float y) { y = Add(x, i) }",
            "Node 'Add' (ai.onnx@21::Add) reads 'i', which is tensor(int64), as 'B' beside 'x', "
            "which is tensor(float): they must have one type. Correct the model.",
        ),
        (
            "(string x) => (string y) { y = Exp(x) }",
            "Node 'Exp' (ai.onnx@21::Exp) reads 'x', which is tensor(string), as 'input', which "
            "takes tensor(bfloat16), tensor(double), tensor(float), tensor(float16). "
            "Correct the model.",
        ),
        (
            "(float x) => (int64 y) { y = Exp(x) }",
            "Node 'Exp' (ai.onnx@21::Exp) makes 'y', which is tensor(int64), as 'output', which "
            "takes tensor(bfloat16), tensor(double), tensor(float), tensor(float16). "
            "Correct the model.",
        ),
        (
            "(float x) => (float y) { y = Mul(x) }",
            "Node 'y' (ai.onnx@21::Mul) has 1 inputs, and the operator takes 2. Correct the model.",
        ),
        (
            "(float x) => (float y) { y = Clip(x, x, x, x) }",
            "Node 'y' (ai.onnx@21::Clip) has 4 inputs, and the operator takes 1 to 3. "
            "Correct the model.",
        ),
        (
            "(float x) => (float y) { y = Pow(, x) }",
            "Node 'y' (ai.onnx@21::Pow) leaves out input 'X', which the operator needs. "
            "Correct the model.",
        ),
        (
            "(float x) => (float y, float z) { y, z = Exp(x) }",
            "Node 'y' (ai.onnx@21::Exp) has 2 outputs, and the operator makes 1. "
            "Correct the model.",
        ),
        (
            "(float x) => (float y) { y = Exp <axis = 1> (x) }",
            "Node 'y' (ai.onnx@21::Exp) has an attribute 'axis', which is none of the "
            "operator's. Correct the model.",
        ),
        (
            "(float x) => (float y) { y = Cast (x) }",
            "Node 'y' (ai.onnx@21::Cast) has no attribute 'to', which the operator needs. "
            "Correct the model.",
        ),
    ],
)
def test_operators(text: str, message: str) -> None:
    with pytest.raises(GraphError) as error:
        normalize(parse(text))
    assert str(error.value) == message


def test_a_loop_of_a_limit_alone() -> None:
    """Its condition is left out, and it carries nothing: all that it has is `Loop(m, "")`."""
    model = parse("""(int64 m, bool yes, float x) => (float[M] y) {
        y = Loop(m, yes) <body = b (int64 i, bool c) => (bool d, float r) {
            d = Identity(c) r = Identity(x)
        }>
    }""")
    model.graph[0].replace_input_with(1, None)
    normalize(model)


def test_operators_of_other_domains_are_not_looked_at() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]> '
    normalize(parse(text + "g (float x) => (float y) { y = my.Exp <axis = 1> (x, x) }"))


def test_names_of_the_main_graph_are_defined_once() -> None:
    model = parse("(float x) => (float y) { a = Exp(x) y = Neg(x) }")
    model.graph[0].outputs[0].name = "y"
    with pytest.raises(GraphError) as error:
        normalize(model)
    assert str(error.value) == (
        "Node 'y' (Neg) in graph 'model' defines 'y', which the graph has already; a name must "
        "have one definition. Rename one of them."
    )


def test_names_of_inputs_are_defined_once() -> None:
    model = parse("(float x, float z) => (float y) { y = Add(x, z) }")
    model.graph.inputs[1].name = "x"
    with pytest.raises(GraphError) as error:
        normalize(model)
    assert str(error.value) == (
        "Graph 'model' has 'x' twice among its inputs; a name must have one definition. "
        "Rename one of them."
    )

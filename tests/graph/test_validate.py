"""Names with two definitions, and operators that are not as ONNX defines them."""

from __future__ import annotations

import onnx_ir as ir
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
            "(float[2] x) => (float[2] y) { y = Softmax <axis = [1]> (x) }",
            "Node 'y' (ai.onnx@21::Softmax) has an attribute 'axis' of type INTS, not INT. "
            "Correct the model.",
        ),
        (
            "(float[2] x) => (float[2] y) { c = Constant <value = [1.0]> () y = Add(x, c) }",
            "Node 'c' (ai.onnx@21::Constant) has an attribute 'value' of type FLOATS, not TENSOR. "
            "Correct the model.",
        ),
        (
            "(float[2] x, bool b) => (float[2] y) { y = If(b) <then_branch = 1, else_branch = 2> }",
            "Node 'y' (ai.onnx@21::If) has an attribute 'then_branch' of type INT, not GRAPH. "
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


LOOP = """(int64 n, float[2] x) => (float[2] y) {
  y = Loop(n, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
    go = Identity(c) w = Sin(v)
  }>
}"""
SCAN = """(float[3] s, float x) => (float y) {
  y = Scan(x, s) <num_scan_inputs = 1, body = b (float v, float r) => (float w) { w = Add(v, r) }>
}"""
IF = """(bool c, float x) => (float y) {
  y = If(c) <then_branch = t () => (float v) { v = Sin(x) },
             else_branch = e () => (float w) { w = Cos(x) }>
}"""


@pytest.mark.parametrize(
    "text, old, new, said",
    [
        (LOOP, "=> (bool go, float[2] w)", "=> (bool go)", "1 outputs, and 2 are"),
        (LOOP, "float[2] w)", "float[2] w, float[2] w)", "3 outputs, and 2 are"),
        (LOOP, "(int64 i, bool c, float[2] v)", "(int64 i, bool c)", "2 inputs, and 3 are"),
        (LOOP, "(int64 i, bool c, float[2] v)", "(bool c)", "1 inputs, and 3 are"),
        (SCAN, "(float v, float r)", "(float v)", "1 inputs, and 2 are"),
        (SCAN, "=> (float w)", "=> (float w, float r)", "2 outputs, and 1 are"),
        (IF, "e () =>", "e (float a) =>", "1 inputs, and 0 are"),
        (IF, "(float v) {", "(float v, float v) {", "2 outputs, and 1 are"),
    ],
)
def test_bodies_of_another_form_than_their_node(text: str, old: str, new: str, said: str) -> None:
    with pytest.raises(
        GraphError, match=f"has a graph '\\w+' of {said} needed. Correct the model."
    ):
        normalize(parse(text.replace(old, new)))


def test_inputs_without_a_type() -> None:
    model = parse("(float x) => (float y) { y = Sin(x) }")
    model.graph.inputs[0].type = None
    with pytest.raises(GraphError) as error:
        normalize(model)
    assert str(error.value) == (
        "Input 'x' of graph 'model' has no type. Declare one, such as FLOAT[N,3]."
    )


def test_nodes_without_an_output() -> None:
    model = parse("(float x) => (float y) { y = Exp(x) }")
    model.graph.append(ir.Node("", "Sin", [model.graph.inputs[0]], num_outputs=0))
    with pytest.raises(GraphError) as error:
        normalize(model)
    assert str(error.value) == (
        "Node 'node_Sin_0' (ai.onnx@21::Sin) has 0 outputs, and the operator makes 1. "
        "Correct the model."
    )


def test_operators_of_an_opset_that_is_not_imported() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Softmax <axis = [1]> (x) }")
    model.opset_imports.clear()
    model.opset_imports["other"] = 1
    with pytest.raises(GraphError, match="has an attribute 'axis' of type INTS, not INT"):
        normalize(model)


def test_carried_values_that_are_left_out() -> None:
    with pytest.raises(GraphError, match="leaves out an input, and all that its body takes must"):
        normalize(parse(LOOP.replace("Loop(n, , x)", "Loop(n, , , x)")))


@pytest.mark.parametrize(
    "said, problem",
    [
        ("num_scan_inputs = 3", "has 2 inputs, of which 3 cannot be stacks"),
        ("num_scan_inputs = -1", "has 2 inputs, of which -1 cannot be stacks"),
        ("num_scan_inputs = 0", "has 2 inputs, of which 0 cannot be stacks"),
        (
            "num_scan_inputs = 1, scan_input_axes = [0, 0]",
            "has 2 numbers in 'scan_input_axes', and 1 are needed",
        ),
        (
            "num_scan_inputs = 1, scan_output_directions = [1]",
            "has 1 numbers in 'scan_output_directions', and 0 are needed",
        ),
    ],
)
def test_scans_of_other_stacks_than_they_have(said: str, problem: str) -> None:
    with pytest.raises(GraphError) as error:
        normalize(parse(SCAN.replace("num_scan_inputs = 1", said)))
    assert str(error.value) == f"Node 'y' (ai.onnx@21::Scan) {problem}. Correct the model."


def test_a_constant_without_a_name() -> None:
    model = parse("(float x) => (float y) { c = Constant<value_float = 1.0>() y = Sin(x) }")
    model.graph[0].outputs[0].name = ""
    assert [node.op_type for node in normalize(model).graph] == ["Sin"]

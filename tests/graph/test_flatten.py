"""Function calls, constants and what a copy shares with the model."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.errors import GraphError, UnsupportedError
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk

HEAD = '<ir_version: 10, opset_import: ["" : {opset}, "loc" : 1]> '
X = np.array([0.25, -1.5], np.float32)


def flat(text: str, opset: int = 21, want: dict[str, object] | None = None) -> ir.Model:
    """Normalize the model of a text and check that the copy computes what the model does.

    `want` are the right values where ONNX Runtime gets the model itself wrong, or refuses it.
    """
    proto = onnx.parser.parse_model(HEAD.format(opset=opset) + text)
    model = ir.from_proto(proto)
    result = normalize(model)
    assert not result.functions
    feeds = {"x": X} | ({"n": np.array(3)} if len(model.graph.inputs) > 1 else {})
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    right = want or compile(model, threads=1)(feeds)
    for name, value in compile(result, threads=1)(feeds).items():
        np.testing.assert_allclose(value, right[name], rtol=1e-6)
    return result


def operators(model: ir.Model) -> list[str]:
    return [f"{node.domain}::{node.op_type}".removeprefix("::") for node in walk(model.graph)]


def test_function_with_attributes_and_defaults() -> None:
    result = flat("""g (float[2] x) => (float[2] y, float[2] z) {
        y = loc.Scale <by = 3.0> (x)
        z = loc.Scale (x) }
      <domain: "loc", opset_import: ["" : 21]>
      Scale <by: float = 0.5> (a) => (b) {
        c = Constant <value_float: float = @by> ()
        b = Mul (a, c) }
    """)
    assert operators(result) == ["Mul", "Mul"]
    assert {n: float(v.const_value.numpy()) for n, v in result.graph.initializers.items()} == {
        "c": 3.0,
        "c_1": 0.5,
    }
    assert [node.name for node in result.graph] == ["Scale/Mul", "Scale/Mul_1"]


def test_attribute_that_is_not_given_is_left_out() -> None:
    result = flat("""g (float[2] x) => (float[2] y) { y = loc.Leaky (x) }
      <domain: "loc", opset_import: ["" : 21]>
      Leaky <slope> (a) => (b) { b = LeakyRelu <alpha: float = @slope> (a) }""")
    assert not result.graph[0].attributes


def test_nested_functions_of_another_opset() -> None:
    """Each node has the opset of the function that it comes from (ONNX Runtime ignores it)."""
    result = flat("""g (float[2] x) => (float[1] y) { y = loc.Outer (x) }
      <domain: "loc", opset_import: ["" : 18, "loc" : 1]>
      Outer (a) => (b) { t = loc.Inner <axis = 0> (a) b = ReduceL1 (t) }
      <domain: "loc", opset_import: ["" : 9]>
      Inner <axis> (a) => (b) { s = Softmax <axis: int = @axis> (a) b = Clip <min = 0.2> (s) }
    """, 19, {"y": [1.0519528]})  # fmt: skip
    assert operators(result) == ["Softmax", "Clip", "ReduceL1"]
    assert result.graph[0].attributes["axis"].as_int() == -1
    assert result.graph.opset_imports == {"": 21, "loc": 1}


def test_newest_opset_is_that_of_a_function() -> None:
    result = flat("""g (float[2] x) => (float[2] y) { y = loc.F (x) }
      <domain: "loc", opset_import: ["" : 22]> F (a) => (b) { b = Elu (a) }""", 18)  # fmt: skip
    assert result.graph.opset_imports[""] == 22


def test_function_with_a_loop_that_captures_its_argument() -> None:
    result = flat("""g (float[2] x, int64 n) => (float[2] y, float[2] z) {
        w = Exp (x)
        y = loc.Repeat (n, w)
        z = loc.Repeat (n, x) }
      <domain: "loc", opset_import: ["" : 21]>
      Repeat (m, v) => (r) {
        yes = Constant <value = bool {1}> ()
        r = Loop (m, yes, v) <body = b (int64 i, bool c, float[2] v0) => (bool d, float[2] v1) {
          half = Constant <value = float {0.5}> ()
          d = Identity (c)
          u = Mul (v0, half)
          v1 = Add (u, v) }> }""")
    assert operators(result).count("Loop") == 2
    assert "Repeat/Loop/body/half" in result.graph.initializers


def test_function_that_returns_its_argument() -> None:
    result = flat(
        """g (float[2] x) => (float[2] y, float[2] z) {
        y, z = loc.Pass (x) }
      <domain: "loc", opset_import: ["" : 21]> Pass (a) => (a, b) { b = Neg (a) }""",
        want={"y": X, "z": -X},
    )
    assert [value.name for value in result.graph.outputs] == ["y", "z"]
    assert operators(result) == ["Neg", "Identity"]


def test_optional_argument_left_out() -> None:
    flat("""g (float[2] x) => (float[2] y) { k = Constant <value = float {0.1}> ()
        y = loc.Bound (x, , k) }
      <domain: "loc", opset_import: ["" : 21]>
      Bound (a, low, high) => (b) { b = Clip (a, low, high) }""")


def test_function_named_like_a_standard_operator() -> None:
    """Conformance case H2: `loc::Tanh` is no Tanh."""
    result = flat("""g (float[2] x) => (float[2] y) { t = loc.Tanh (x) y = Tanh (t) }
      <domain: "loc", opset_import: ["" : 21]> Tanh (a) => (b) { b = Mul (a, a) }""")
    assert operators(result) == ["Mul", "Tanh"]


@pytest.mark.parametrize(
    "text, kind, message",
    [
        (
            """g (float x) => (float y) { y = loc.A (x) }
            <domain: "loc", opset_import: ["" : 21, "loc" : 1]> A (a) => (b) { b = loc.B (a) }
            <domain: "loc", opset_import: ["" : 21, "loc" : 1]> B (a) => (b) { b = loc.A (a) }""",
            GraphError,
            "Functions call each other in a circle: loc::A -> loc::B -> loc::A. A function must "
            "not call itself; write a Loop instead.",
        ),
        (
            """g (float x) => (float y) { y = loc.A (x, x) }
            <domain: "loc", opset_import: ["" : 21]> A (a) => (b) { b = Neg (a) }""",
            GraphError,
            "Node 'y' calls function loc::A with 2 inputs, and the function has 1. "
            "Correct the call.",
        ),
        (
            """g (float x) => (float y) { y, z = loc.A (x) }
            <domain: "loc", opset_import: ["" : 21]> A (a) => (b) { b = Neg (a) }""",
            GraphError,
            "Node 'y' calls function loc::A with 2 outputs, and the function has 1. "
            "Correct the call.",
        ),
        (
            """g (float x) => (float y) { t = loc.A (x) y = my.Op (t) }
            <domain: "loc", opset_import: ["my" : 2]> A (a) => (b) { b = my.Op (a) }""",
            UnsupportedError,
            "Node 'b' (my@2::Op) is in a function, and the model imports my@1: both cannot be had "
            "in one graph. Export the model with one version of that domain.",
        ),
    ],
)
def test_refusals(text: str, kind: type[Exception], message: str) -> None:
    head = HEAD.format(opset=21).replace("]>", ', "my" : 1]>')
    with pytest.raises(kind) as error:
        normalize(ir.from_onnx_text(head + text))
    assert str(error.value) == message


def test_every_kind_of_constant_becomes_an_initializer() -> None:
    result = normalize(
        ir.from_onnx_text(
            HEAD.format(opset=21)
            + """g () => () {
        a = Constant <value = int8[2] {1, 2}> ()
        b = Constant <value_float = 1.5> ()
        c = Constant <value_floats = [1.5, 2.5]> ()
        d = Constant <value_int = 3> ()
        e = Constant <value_ints = [3, 4]> ()
        f = Constant <value_string = "é"> ()
        h = Constant <value_strings = ["p", "q"]> () }"""
        )
    )
    found = {name: value.const_value for name, value in result.graph.initializers.items()}
    assert {name: (t.dtype.name, t.numpy().tolist()) for name, t in found.items() if t} == {
        "a": ("INT8", [1, 2]),
        "b": ("FLOAT", 1.5),
        "c": ("FLOAT", [1.5, 2.5]),
        "d": ("INT64", 3),
        "e": ("INT64", [3, 4]),
        "f": ("STRING", "é".encode()),
        "h": ("STRING", [b"p", b"q"]),
    }
    assert len(result.graph) == 0
    assert [t.name for t in ir.to_proto(result).graph.initializer] == list(found)


def test_constants_of_bodies_are_called_by_their_address() -> None:
    """ONNX Runtime gives the innermost `w` the values of the one around it."""
    result = flat(
        """g (float[2] x, int64 n) => (float[2] y) <float[2] w = {1, 2}> {
        [outer] y = Loop (n, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u)
          <float[2] w = {3, 4}> {
          yes = Constant <value = bool {1}> ()
          [inner] r = If (yes) <then_branch = t () => (float[2] p) <float[2] w = {5, 6}> {
              p = Mul (v, w) }, else_branch = e () => (float[2] p) { p = Neg (w) }>
          d = Identity (c)
          u = Add (r, w) }> }""",
        want={"y": [124.25, -152.0]},
    )
    values = {n: v.const_value.numpy().tolist() for n, v in result.graph.initializers.items()}
    assert values == {
        "w": [1.0, 2.0],
        "outer/body/w": [3.0, 4.0],
        "outer/body/yes": True,
        "outer/body/inner/then_branch/w": [5.0, 6.0],
    }


def test_constant_that_a_graph_returns() -> None:
    result = flat("""g (float[2] x) => (float[2] y, float[2] z) {
        y = Constant <value = float[2] {1, 2}> () z = Mul (x, y) }""")
    assert operators(result) == ["Mul", "Identity"]
    assert [value.name for value in result.graph.outputs] == ["y", "z"]


def test_model_handed_in_is_not_modified() -> None:
    """Neither its graph nor the names of the tensors that the copy shares with it."""
    text = """<ir_version: 4, opset_import: ["" : 9]> g (float[2,2] x, bool c) => (float[] y)
      <float[2] w = {1, 2}> {
        k = Constant <value = float[2] {3, 4}> ()
        y = If (c) <then_branch = t () => (float[2] p) <float[2] w = {5, 6}> {
            q = Squeeze (x) r = Clip <max = 2.0> (q) p = Mul (r, w) },
          else_branch = e () => (float[2] k0) { k0 = Mul (x, k) }> }"""
    model = ir.from_onnx_text(text)
    names = [value.name for node in walk(model.graph) for value in node.outputs]
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    ir.to_proto(normalize(model)).SerializeToString()
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before
    assert [value.name for node in walk(model.graph) for value in node.outputs] == names


def test_large_external_data_stays_by_reference() -> None:
    """A file that is not there cannot have been read."""
    tensor = ir.ExternalTensor(
        "weights.bin", 0, 2**33, ir.DataType.FLOAT, shape=ir.Shape([2**31]), name="w"
    )
    body = ir.Value(
        name="w", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor
    )
    p = ir.node("Neg", [body])
    branch = ir.Graph([], p.outputs, nodes=[p], initializers=[body], name="b")
    flag = ir.Value(name="c", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    node = ir.node(
        "If",
        [flag],
        {"then_branch": branch, "else_branch": branch.clone()},
        name="if",
    )
    graph = ir.Graph([flag], node.outputs, nodes=[node], opset_imports={"": 9}, name="g")
    result = normalize(ir.Model(graph, ir_version=4))
    lifted = [v.const_value for v in result.graph.initializers.values()]
    assert [type(t) for t in lifted] == [ir.ExternalTensor] * 2
    assert [t.name for t in lifted if t] == ["if/then_branch/w", "if/else_branch/w"]
    assert tensor.name == "w"

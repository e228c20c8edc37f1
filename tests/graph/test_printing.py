"""The text of models: whole, deterministic, quick."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from whileback.errors import FormatError
from whileback.gradient import gradient
from whileback.graph.printing import dump, node_text, to_text

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def text(model: str) -> str:
    return to_text(ir.from_onnx_text(HEADER + model))


NET = """net (int64 n, float[B,2] x, float[2,2] w, bool flag) => (float[B,2] y)
        <float[2,2] w = {1, 0, 0, 1}, float[2] b = {0.1, -2}, float half = {0.5}> {
            z = Loop (n, "", x) <body = trip (int64 i, bool c, float[B,2] v)
                => (bool d, float[B,2] u) <float[9] table = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
                d = Identity (c)
                t = Gather <axis = 0> (table, i)
                p = Gemm <transB = 1, alpha = 0.25> (v, w, b)
                s = Mul (p, half)
                u = Mul (s, t)
            }>
            axes = Constant <value_ints = [0, 1]> ()
            total = ReduceSum (z, axes)
            y = If (flag) <
                then_branch = yes () => (float[B,2] a) { a = Add (z, total) },
                else_branch = no () => (float[B,2] o) { o = Identity (z) }>
        }"""
NET_TEXT = """net: ai.onnx@21, IR 10
inputs
  n : INT64[]
  x : FLOAT[B,2]
  w : FLOAT[2,2] = [[1.0, 0.0], [0.0, 1.0]]
  flag : BOOL[]
outputs
  y : FLOAT[B,2]
initializers
  b : FLOAT[2] = [0.1, -2.0]
nodes
  z = Loop(n, -, x)
    body(i : INT64[], c : BOOL[], v : FLOAT[B,2]) -> (d, u)
      table : FLOAT[9] = 9 values, 1.0 … 9.0
      d : BOOL[] = Identity(c)
      t = Gather(table, i, axis=0)
      p = Gemm(v, w, b, transB=1, alpha=0.25)
      s = Mul(p, 0.5)
      u : FLOAT[B,2] = Mul(s, t)
  total = ReduceSum(z, [0, 1])
  y : FLOAT[B,2] = If(flag)
    then_branch() -> (a)
      a : FLOAT[B,2] = Add(z, total)
    else_branch() -> (o)
      o : FLOAT[B,2] = Identity(z)"""


def test_bodies_constants_and_left_out_inputs() -> None:
    assert text(NET) == NET_TEXT


def test_a_gradient_names_the_nodes_that_it_comes_from() -> None:
    model = ir.from_onnx_text(
        HEADER
        + """net (float[2] x) => (float y) {
            [double] d = Add (x, x)
            [square] s = Mul (d, x)
            [sum] y = ReduceSum <keepdims = 0> (s)
        }"""
    )
    lines = to_text(gradient(model, of="y", wrt="x")).splitlines()
    forward = [line for line in lines if line.startswith("  d : ")]
    assert forward == ["  d : FLOAT[2] = Add(x, x)  # double"]
    assert any(line.endswith("  # from square") for line in lines)
    assert any(line.endswith("  # from sum") for line in lines)


def test_types_attributes_domains_and_functions() -> None:
    shown = to_text(
        ir.from_onnx_text(
            """<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
        net (float[2] x) => (int32[2] y, string s) {
            h = my.domain.Twice <by = 2.5> (x)
            y = Cast <to = 6> (h)
            s = Constant <value = string {"word"}> ()
        }
        <domain: "my.domain", opset_import: ["" : 21]>
        Twice <by> (a) => (b) { k = Constant <value_float: float = @by> ()  b = Mul (a, k) }"""
        )
    )
    assert shown == (
        """net: ai.onnx@21, my.domain@1, IR 10
inputs
  x : FLOAT[2]
outputs
  y : INT32[2]
  s : STRING[]
nodes
  h = my.domain::Twice(x, by=2.5)
  y : INT32[2] = Cast(h, to=INT32)
  s : STRING[] = Constant(value='word')
function my.domain::Twice(a) -> (b)
  k = Constant(value_float=@by)
  b = Mul(a, k)"""
    )


def test_large_values_are_summarised() -> None:
    rows = ir.Value(name="rows", const_value=ir.tensor(np.linspace(-1, 2, 12).reshape(3, 4)))
    huge = ir.Value(name="huge", const_value=ir.tensor(np.zeros((1025, 1024), np.int8)))
    words = ir.Value(name="words", const_value=ir.tensor([b"a"] * 9))
    outer = ir.ExternalTensor(
        "weights.bin", 0, 400, ir.DataType.FLOAT, shape=ir.Shape([100]), name="outer"
    )
    away = ir.Value(name="away", const_value=outer)
    node = ir.node("F", [rows, huge, words, away], {"sizes": list(range(20))}, domain="d")
    graph = ir.Graph([], node.outputs, nodes=[node], name="g", opset_imports={"": 21})
    node.outputs[0].name = "y"
    for value in (rows, huge, words, away):
        value.type = ir.TensorType(value.const_value.dtype)
        value.shape = ir.Shape(value.const_value.shape)
        graph.register_initializer(value)
    assert to_text(ir.Model(graph, ir_version=10)) == (
        """g: ai.onnx@21, IR 10
outputs
  y
initializers
  rows : DOUBLE[3,4] = 12 values, -1.0 … 2.0
  huge : INT8[1025,1024] = 1049600 values
  words : STRING[9] = 9 values
  away : FLOAT[100] = data in 'weights.bin'
nodes
  y = d::F(rows, huge, words, away, sizes=[0, 1, 2, … 20 values])"""
    )


def test_a_long_model_is_printed() -> None:
    x = ir.Value(name="v0", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    nodes, last = [], x
    for index in range(50_000):
        nodes.append(ir.node("Add", [last, x], name=f"n{index}"))
        last = nodes[-1].outputs[0]
        last.name = f"v{index + 1}"
    model = ir.Model(ir.Graph([x], [last], nodes=nodes, opset_imports={"": 21}), ir_version=10)
    shown = to_text(model)
    assert shown.endswith("\n  v50000 = Add(v49999, v0)")
    assert to_text(model) == shown


def test_dump_writes_the_text_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ir.from_onnx_text(HEADER + "net (float x) => (float y) { y = Mul (x, x) }")
    model.graph.name = "my/net"
    monkeypatch.setenv("WHILEBACK_DUMP", str(tmp_path / "steps"))
    result = gradient(model, of="y", wrt="x")
    files = sorted(path.name for path in (tmp_path / "steps").iterdir())
    assert files == ["my_net.1-normalize.txt", "my_net.2-backward.txt", "my_net.3-clean.txt"]
    assert (tmp_path / "steps" / files[2]).read_text() == f"{to_text(result)}\n"


def test_dump_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ir.from_onnx_text(HEADER + "net (float x) => (float y) { y = Mul (x, x) }")
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHILEBACK_DUMP", str(tmp_path / "file"))
    with pytest.raises(FormatError) as caught:
        dump(model, "1-normalize")
    assert str(caught.value) == (
        f"WHILEBACK_DUMP='{tmp_path}/file': '{tmp_path}/file/net.1-normalize.txt' cannot be "
        "written: File exists; name a folder that can be written to, or unset the variable"
    )


def test_no_dump_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHILEBACK_DUMP", raising=False)
    monkeypatch.chdir(tmp_path)
    dump(ir.from_onnx_text(HEADER + "net (float x) => (float y) { y = Mul (x, x) }"), "step")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("dims", "shown"), [("", "'a'"), ("2", "['a', 'b']"), ("2,1", "[['a'], ['b']]")]
)
def test_texts_in_tensors_of_any_rank(dims: str, shown: str) -> None:
    data = [b"a", b"b"] if dims else [b"a"]
    shape = ir.Shape([int(dim) for dim in dims.split(",") if dim])
    node = ir.node("Constant", [], {"value": ir.StringTensor(data, shape=shape)})
    assert node_text(node).endswith(f"= Constant(value={shown})")


@pytest.mark.parametrize("attribute", ["value = [1.0]", "value = 3", "val = 1", ""])
def test_constants_that_hold_no_constant(attribute: str) -> None:
    """A model that is wrong is shown as it is."""
    attributes = f"<{attribute}>" if attribute else ""
    shown = text(f"g (float x) => (float y) {{ c = Constant {attributes} () y = Add(x, c) }}")
    assert "  c = Constant(" in shown
    assert "  y : FLOAT[] = Add(x, c)" in shown


def test_types_that_do_not_exist() -> None:
    assert "Cast(x, to=99)" in text("g (float x) => (float y) { y = Cast <to = 99> (x) }")

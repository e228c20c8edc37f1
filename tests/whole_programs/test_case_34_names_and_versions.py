"""Conformance case 34: unused values, nodes without names, names that are taken, old versions."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import parse
from tests.whole_programs.right_answers import assert_numbers

from whileback.engines import compile
from whileback.errors import WhilebackWarning
from whileback.gradient import gradient, names
from whileback.graph.scopes import walk

SQUARE = """<ir_version: {ir_version}, opset_import: ["" : {opset}{more}]>
model (float[2] x, float[3] u{weights}) => (float[2] y, float l) <{initializers}> {{
  y = Mul (x, x)
  l = ReduceSum <keepdims = 0> (y) }}"""
UNUSED = "float[2,2] w = {1, 2, 3, 4}"


def square(ir_version: int, opset: int = 9, more: str = "", extra: str = "") -> ir.Model:
    """Weights are inputs as well in IR version 3."""
    weights = ", float[2,2] w" if ir_version < 4 else ""
    return parse(
        SQUARE.format(
            ir_version=ir_version,
            opset=opset,
            more=more,
            weights=weights,
            initializers=UNUSED + extra,
        )
    )


@pytest.mark.parametrize("ir_version", [3, 4, 7, 8, 10])
def test_unused_input_and_weight_have_zeros(ir_version: int) -> None:
    model = square(ir_version)
    with pytest.warns(WhilebackWarning, match="its gradient is zero everywhere"):
        result = gradient(model, of="l", wrt=["x", "u", "w"])
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    outputs = compile(result, threads=1)({"x": np.float32([1, -3]), "u": np.zeros(3, np.float32)})
    assert_numbers(outputs, y=[1, 9], x_grad=[2, -6], u_grad=[0] * 3, w_grad=[[0, 0], [0, 0]])
    assert (result.ir_version, result.graph.opset_imports) == (10, {"": 21})


def test_nodes_get_names() -> None:
    model = square(8)
    assert not any(node.name for node in model.graph)
    found = [node.name for node in walk(gradient(model, of="l", wrt=["x"]).graph)]
    assert all(found) and len(set(found)) == len(found)


def test_taken_name_of_a_gradient() -> None:
    model = square(8, extra=", float[2] x_grad = {5, 5}, float[2] x_grad_1 = {6, 6}")
    result = gradient(model, of="l", wrt=["x"])
    assert names(result)["x"] == result.graph.outputs[-1].name == "x_grad_2"
    assert "x_grad" not in [value.name for value in result.graph.outputs]


@pytest.mark.parametrize("opset, ir_version", [(13, 7), (15, 8), (20, 9), (21, 10)])
def test_caps(opset: int, ir_version: int) -> None:
    model = square(3, opset=9)
    result = gradient(model, of="l", wrt=["x"], opset=opset, ir_version=ir_version)
    assert (result.ir_version, result.graph.opset_imports[""]) == (ir_version, opset)
    onnx.checker.check_model(ir.to_proto(result), full_check=True)
    feeds = {"x": np.float32([1, -3]), "u": np.zeros(3, np.float32)}
    assert_numbers(compile(result, threads=1)(feeds), x_grad=[2, -6])


def test_domains_that_the_model_does_not_import_are_not_added() -> None:
    assert gradient(square(8), of="l", wrt=["x"]).graph.opset_imports == {"": 21}
    own = square(8, more=', "my" : 3')
    assert gradient(own, of="l", wrt=["x"]).graph.opset_imports == {"": 21, "my": 3}

"""Conformance case 33: 16-bit weights, and values of types that have no gradient."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.formats import from_proto
from whileback.gradient import vjp

WEIGHTS = np.array([[0.25, 0.5], [1, 2]], np.float32)
TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def product(dtype: str, raw: bool) -> onnx.ModelProto:
    """Return y = x·W for a weight of 16 bits, widened to FLOAT in the model."""
    bits = helper.make_tensor("w", TYPES[dtype], [2, 2], WEIGHTS.ravel())
    if raw:
        words = np.array(bits.int32_data, np.uint16)
        bits = TensorProto(name="w", data_type=TYPES[dtype], dims=[2, 2], raw_data=words.tobytes())
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in "xy")
    graph = helper.make_graph(nodes, "product", [x], [y], [bits])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_four_ways_of_storing_decode_equal(dtype: str, raw: bool) -> None:
    model = vjp(from_proto(product(dtype, raw), None), "y", ["x", "w"])
    ones = np.ones((2, 2), np.float32)
    got = compile(model)(x=3 * ones, y_grad=ones)
    assert got["x_grad"].tolist() == WEIGHTS.tolist()
    assert got["w_grad"].dtype.name == dtype
    assert got["w_grad"].astype(np.float32).tolist() == (3 * ones).tolist()


def test_no_gradient_flows_through_a_boolean() -> None:
    text = """(float[3] x) => (float[3] y) {
      b = Cast<to = 9>(x)
      f = Cast<to = 1>(b)
      y = Mul(x, f)
    }"""
    run = compile(vjp(parse(text), "y", "x"))
    assert run(x=[0.0, 2.0, -3.0], y_grad=[1.0, 1.0, 1.0])["x_grad"].tolist() == [0.0, 1.0, 1.0]


ROUNDED = """(float x, float[3] w) => (float y) {
  f = Floor(x)
  i = Cast<to = 7>(f)
  c = Gather(w, i)
  y = Mul(c, x)
}"""


def test_an_index_computed_from_a_float() -> None:
    got = compile(vjp(parse(ROUNDED), "y", ["x", "w"]))(x=1.5, w=[1.0, 10.0, 100.0], y_grad=1.0)
    assert (got["y"], got["x_grad"], got["w_grad"].tolist()) == (15.0, 10.0, [0.0, 1.5, 0.0])
    assert_gradient(ROUNDED, ["y"], ["x", "w"], {"x": np.float32(1.5)}, second_order=True)


def test_the_gradient_of_an_integer_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError) as caught:
        vjp(parse(ROUNDED), "y", ["i"])
    assert str(caught.value) == (
        "wrt= names 'i', which is INT64[]: only FLOAT, DOUBLE, FLOAT16 and BFLOAT16 tensors have "
        "gradients. Name another value."
    )


def test_gradients_of_float16_are_float16() -> None:
    model = vjp(parse("(float16[2] x, float16[2] w) => (float16[2] y) { y = Mul(x, w) }"), "y", "x")
    assert model.graph.outputs[-1].dtype == ir.DataType.FLOAT16

"""The order in which a model lists its nodes makes no difference to the check."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from whileback import check


def unsorted() -> onnx.ModelProto:
    """Return y = exp(x)·x with the product listed first; ONNX Runtime runs such models."""
    nodes = [helper.make_node("Mul", ["a", "x"], ["y"]), helper.make_node("Exp", ["x"], ["a"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy")
    graph = helper.make_graph(nodes, "unsorted", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_an_unsorted_model_is_checked() -> None:
    assert check(unsorted(), of="y", wrt="x").ok

"""Types of outputs whose shape cannot be inferred."""

from __future__ import annotations

import onnx_ir as ir
from tests.judge import parse

from whileback.graph.shapes import Shapes


def test_a_reshape_to_a_shape_of_unknown_length_keeps_the_type() -> None:
    model = parse(
        "(double[N] x, int64[R] s) => (double y) "
        "{ r = Reshape(x, s) m = Sin(r) y = ReduceSum<keepdims = 0>(m) }"
    )
    reshape, sine = list(model.graph)[:2]
    reshape.outputs[0].type = sine.outputs[0].type = None
    Shapes(model.opset_imports).infer_graph(model.graph)
    assert reshape.outputs[0].dtype == ir.DataType.DOUBLE
    assert sine.outputs[0].dtype == ir.DataType.DOUBLE
    assert reshape.outputs[0].shape is None

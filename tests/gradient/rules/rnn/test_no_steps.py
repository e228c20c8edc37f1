"""Sequences of no steps: nothing depends on anything, and the last states are zero.

Of ONNX Runtime 1.32 that ends the process in a GRU, and leaves the last cells of an LSTM unwritten;
hence what the gradient reads of the forward pass is given here.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.gradient.rules.rnn.layers import BATCH, HIDDEN, INPUTS, OUTPUTS, layer, sizes
from tests.judge import parse

from whileback.engines import compile
from whileback.gradient import vjp


@pytest.mark.parametrize("given", ["", "Bh", "BncP"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_gradients_are_zero(operator: str, direction: str, given: str) -> None:
    sides = 2 if direction == "bidirectional" else 1
    shapes = {
        name: shape
        for name, shape in sizes(operator, sides, steps=0).items()
        if name in set(INPUTS[operator]) & set("XWR" + given)
    }
    of, wrt = OUTPUTS[operator], [name for name in shapes if name != "n"]
    model = vjp(parse(layer(operator, given, direction=direction, kind="symbols")), of, wrt)
    (node,) = (node for node in model.graph if node.op_type == operator)
    results = {value for value in node.outputs if value.name}
    model.graph.outputs[:] = [value for value in model.graph.outputs if value not in results]
    Y = ir.Value(name="Y", type=node.outputs[0].type, shape=node.outputs[0].shape)
    node.outputs[0].replace_all_uses_with(Y)
    model.graph.remove(node)
    model.graph.inputs.append(Y)
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    feeds |= {"n": np.zeros(BATCH, np.int32)} if "n" in shapes else {}
    feeds["Y"] = np.zeros((0, sides, BATCH, HIDDEN), np.float32)
    feeds |= {f"{name}_grad": np.ones((sides, BATCH, HIDDEN), np.float32) for name in of}
    feeds["Y_grad"] = feeds["Y"]
    got = compile(model)({str(value.name): feeds[str(value.name)] for value in model.graph.inputs})
    for name in wrt:
        np.testing.assert_array_equal(got[f"{name}_grad"], np.zeros(shapes[name], np.float32))

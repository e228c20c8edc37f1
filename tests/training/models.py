"""Models to train, and batches for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from tests.judge import parse

Arrays = dict[str, Any]

MLP = """(float[N,2] x, float[2,16] w0, float[16] b0, float[16,2] w1, float[2] b1)
    => (float[N,2] p) {
    a = Gemm(x, w0, b0)
    h = Tanh(a)
    z = Gemm(h, w1, b1)
    p = Softmax(z)
}"""
# An RNN whose trips are as many as the sequence is long.
RNN = """(float[T,N,1] x, float[1,8] win, float[8,8] wrec, float[8,1] wout, float[8] b)
    => (float[N,1] y) {
    steps = Shape<start = 0, end = 1>(x)
    count = Shape<start = 1, end = 2>(x)
    axes = Constant<value_ints = [0]>()
    trips = Squeeze(steps, axes)
    eight = Constant<value_ints = [8]>()
    size = Concat<axis = 0>(count, eight)
    start = ConstantOfShape(size)
    last = Loop(trips, "", start) <body = trip (int64 i, bool c, float[N,8] h)
                                       => (bool d, float[N,8] new) {
        d = Identity(c)
        row = Gather(x, i)
        u = MatMul(row, win)
        v = MatMul(h, wrec)
        s = Sum(u, v, b)
        new = Tanh(s)
    }>
    y = MatMul(last, wout)
}"""


def with_weights(text: str) -> ir.Model:
    """Return a model with all inputs but x as initializers, of random values."""
    model, random = parse(text), np.random.default_rng(0)
    for value in list(model.graph.inputs)[1:]:
        assert value.shape is not None
        data = random.normal(size=value.shape.numpy()).astype("f") / 2
        value.const_value = ir.tensor(data, name=value.name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def signs(count: int, seed: int = 1) -> Arrays:
    """Return a batch for `MLP`: whether two numbers have the same sign, which is not linear."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype("f")
    return {"x": x, "label": (x[:, 0] * x[:, 1] > 0).astype(np.int64)}

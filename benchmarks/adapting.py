"""What dropout by counting, adapters and mixed precision cost a step, beside the step without.

Prints microseconds of a step with AdamW on ONNX Runtime, one thread, medians of interleaved rounds,
and their ratios to the plain step. In the loop, dropout is in each trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

import whileback
from whileback import training

HEADER = '<ir_version: 10, opset_import: ["" : 21]> model '
MLP = """(float[N,784] x, float[784,128] w0, float[128] b0, float[128,128] w1, float[128] b1,
    float[128,10] w2, float[10] b2) => (float[N,10] y) {
    a = Gemm(x, w0, b0) h = Relu(a) hd = Dropout(h)
    c = Gemm(hd, w1, b1) d = Relu(c) dd = Dropout(d)
    y = Gemm(dd, w2, b2)
}"""
RNN = """(float[T,N,16] x, float[16,64] win, float[64,64] wrec, float[64,1] wout)
    => (float[N,1] y) {
    zero = Constant<value_ints = [0]>()
    steps = Shape<end = 1>(x) trips = Squeeze(steps, zero)
    count = Shape<start = 1, end = 2>(x) width = Constant<value_ints = [64]>()
    size = Concat<axis = 0>(count, width) start = ConstantOfShape(size)
    last = Loop(trips, "", start) <body = trip (int64 i, bool c, float[N,64] h)
        => (bool d, float[N,64] new) {
        d = Identity(c) row = Gather(x, i) hd = Dropout(h)
        u = MatMul(row, win) v = MatMul(hd, wrec) s = Add(u, v) new = Tanh(s)
    }>
    y = MatMul(last, wout)
}"""
Make = Callable[[ir.Model, str], ir.Model]
WAYS: dict[str, Make] = {
    "plain": lambda model, loss: training.step(model, loss, "adamw"),
    "dropout": lambda model, loss: training.step(model, loss, "adamw", dropout=0.1),
    "adapters of rank 8": lambda model, loss: training.step(training.lora(model), loss, "adamw"),
    "float16": lambda model, loss: training.step(model, loss, "adamw", precision="float16"),
}


def weighted(text: str) -> ir.Model:
    """Return a model with all inputs but x as initializers."""
    model, random = ir.from_onnx_text(HEADER + text), np.random.default_rng(0)
    for value in list(model.graph.inputs)[1:]:
        assert value.shape is not None
        data = random.normal(size=value.shape.numpy()).astype(np.float32) / 8
        value.const_value = ir.tensor(data, name=value.name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def measure(name: str, text: str, loss: str, batch: dict[str, Any]) -> None:
    """Print a row for each way to make steps."""
    steps = {way: make(weighted(text), loss) for way, make in WAYS.items()}
    functions = {way: whileback.compile(step, threads=1) for way, step in steps.items()}
    feeds = batch | {"learning_rate": np.float32(0.001)}
    times: dict[str, list[float]] = {way: [] for way in functions}
    for _ in range(200):
        for way, function in functions.items():
            start = time.perf_counter()
            function(feeds)
            times[way].append(time.perf_counter() - start)
    plain = np.median(times["plain"])
    for way, all_times in times.items():
        median = np.median(all_times)
        print(f"{name:6} {way:20} {median * 1e6:9.0f} µs {median / plain:6.2f}", flush=True)


def main() -> None:
    """Print the table."""
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 784)).astype(np.float32)
    measure("MLP", MLP, "cross-entropy", {"x": x, "label": random.integers(0, 10, 32)})
    x = random.normal(size=(20, 32, 16)).astype(np.float32)
    measure("loop", RNN, "mse", {"x": x, "label": x[:, :, 0].sum(0)[:, None]})


if __name__ == "__main__":
    main()

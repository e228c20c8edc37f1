"""Time of whileback.torch.Module, forward and backward, beside the same model in PyTorch.

python benchmarks/embedding.py       half a minute; needs whileback[onnxruntime,torch,xla]

Rounds are interleaved, one thread each, and medians are printed in microseconds. Gradients that
disagree with PyTorch's are not timed.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from whileback.torch import Module

SECONDS = 3.0
HEAD = '<ir_version: 10, opset_import: ["": 21]> '
# Initializers that are inputs as well, as in models of old, have their types there.
MLP = """mlp (float[N,784] x, float[128,784] w0, float[128] b0, float[128,128] w1, float[128] b1,
             float[10,128] w2, float[10] b2) => (float[N,10] z) {
    h0 = Gemm <transB = 1> (x, w0, b0)
    a0 = Relu (h0)
    h1 = Gemm <transB = 1> (a0, w1, b1)
    a1 = Relu (h1)
    z = Gemm <transB = 1> (a1, w2, b2)
}"""
LOOP = """rnn (float[N,64] x, int64 trips, float[64,64] w) => (float[N,64] y) {
    y = Loop (trips, "", x) <body = trip (int64 i, bool c, float[N,64] v)
                                        => (bool d, float[N,64] u) {
        d = Identity (c)
        p = MatMul (v, w)
        u = Tanh (p)
    }>
}"""


class Recurrence(torch.nn.Module):
    """y ← tanh(y·w), as a loop of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, y: Any, trips: int) -> Any:
        for _ in range(trips):
            y = torch.tanh(y @ self.w)
        return y


@dataclass
class Case:
    """A model in ONNX, the same in PyTorch, and what they are called with."""

    name: str
    text: str
    network: torch.nn.Module
    weights: list[str]
    arguments: tuple[Any, ...]

    def module(self, engine: str, **options: Any) -> Module:
        """Return the model as a module, with the weights of the network."""
        model = ir.from_onnx_text(HEAD + self.text, initializers=self.tensors())
        return Module(model, engine, **options)

    def tensors(self) -> list[ir.Tensor]:
        values = [each.detach().numpy().copy() for each in self.network.parameters()]
        return [ir.tensor(v, name=n) for n, v in zip(self.weights, values, strict=True)]


def cases() -> list[Case]:
    torch.manual_seed(0)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    mlp = torch.nn.Sequential(linear(784, 128), relu(), linear(128, 128), relu(), linear(128, 10))
    weights = ["w0", "b0", "w1", "b1", "w2", "b2"]
    return [
        Case("MLP 784-128-128-10", MLP, mlp, weights, (torch.randn(32, 784),)),
        Case("100 trips, n = 64", LOOP, Recurrence(), ["w"], (torch.randn(32, 64), 100)),
    ]


def both_ways(module: torch.nn.Module, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    """Run forward and backward, and return the gradients."""
    module.zero_grad()
    module(*arguments).sum().backward()
    return [each.grad.numpy() for each in module.parameters()]


def main() -> None:
    torch.set_num_threads(1)
    for case in cases():
        ways: dict[str, Callable[[], Any]] = {}
        modules = {
            "PyTorch": case.network,
            "onnxruntime": case.module("onnxruntime", threads=1),
            "xla": case.module("xla"),
        }
        want = both_ways(case.network, case.arguments)
        for name, module in modules.items():
            for got, wanted in zip(both_ways(module, case.arguments), want, strict=True):
                np.testing.assert_allclose(got, wanted, 1e-3, 1e-3)
            ways[name] = lambda module=module, case=case: both_ways(module, case.arguments)
        report(case.name, medians(ways))


def medians(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return microseconds, of interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + SECONDS * len(ways)
    while time.perf_counter() < end:
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(1e6 * (time.perf_counter() - start))
    return {name: statistics.median(each) for name, each in times.items()}


def report(case: str, found: dict[str, float]) -> None:
    own = found["PyTorch"]
    told = [f"{name} {time:.0f} µs ({time / own:.2f})" for name, time in found.items()]
    print(f"{case}: {', '.join(told)}")


if __name__ == "__main__":
    main()

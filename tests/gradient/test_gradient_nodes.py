"""Models that hold ONNX's operator `Gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.model import collect_testcases

import whileback
from whileback.engines import Compiled, compile
from whileback.errors import GraphError, NoGradientError, UnsupportedError

HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1, "my" : 1]> model '
ONNX = [case for case in collect_testcases() if case.name.startswith("test_gradient")]


def parse(text: str) -> ir.Model:
    return ir.from_onnx_text(HEAD + text.replace("Gradient", "ai.onnx.preview.training.Gradient"))


@pytest.mark.parametrize("case", ONNX, ids=lambda case: case.name)
def test_models_of_onnx(case: Any) -> None:
    inputs, results = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    outputs = [value.name for value in case.model.graph.output]
    model = whileback.gradient(case.model, of=outputs[0], wrt="a")
    assert isinstance(model, onnx.ModelProto)
    got = compile(model)(dict(zip(names, inputs, strict=True)))
    for name, want in zip(outputs, results, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-6)


def differences(run: Compiled, feeds: dict[str, Any], of: str, wrt: str, weights: Any) -> Any:
    """Return the central differences of Σ weights·of."""
    slopes = np.zeros_like(feeds[wrt])
    for index in np.ndindex(slopes.shape):
        ends = []
        for step in (1e-6, -1e-6):
            changed = feeds[wrt].copy()
            changed[index] += step
            ends.append(np.sum(weights * run(feeds | {wrt: changed})[of]))
        slopes[index] = (ends[0] - ends[1]) / 2e-6
    return slopes


def assert_right(text: str, loss: str, dw: str, wrt: Sequence[str]) -> None:
    """Hold `dw`, the gradient of the loss by w, and the gradients of that to differences."""
    model = parse(text)
    rng = np.random.default_rng(0)
    feeds = {str(v.name): rng.uniform(-1, 1, v.shape.numpy()) for v in model.graph.inputs}
    again = compile(whileback.vjp(model, of=dw, wrt=wrt))
    weights = rng.uniform(-1, 1, feeds["w"].shape)
    feeds[f"{dw}_grad"] = weights
    got = again(feeds)
    np.testing.assert_allclose(got[dw], differences(again, feeds, loss, "w", 1.0), 1e-6, 1e-8)
    for name in wrt:
        want = differences(again, feeds, dw, name, weights)
        np.testing.assert_allclose(got[f"{name}_grad"], want, 1e-6, 1e-8)


def test_at_the_values_themselves() -> None:
    """It may stand before what it differentiates, and share values with it."""
    text = """(double[2,3] x, double[3,2] w) => (double y, double[3,2] dw) {
        dw, dx = Gradient <xs = ["w", "x"], y = "y"> (w, x)
        h = MatMul (x, w)
        s = Sin (h)
        y = ReduceSum <keepdims = 0> (s)
    }"""
    assert_right(text, "y", "dw", ["w", "x"])


def test_through_a_loop() -> None:
    text = """(double[2,2] w) => (double y, double[2,2] dw) {
        three = Constant <value_int = 3> ()
        v = Loop (three, "", w) <body = b (int64 i, bool c, double[2,2] u)
            => (bool d, double[2,2] r) { d = Identity (c) p = MatMul (u, w) r = Tanh (p) }>
        y = ReduceSum <keepdims = 0> (v)
        dw = Gradient <xs = ["w"], y = "y"> (w)
    }"""
    assert_right(text, "y", "dw", ["w"])


def test_through_optionals() -> None:
    text = """(double[2,2] w) => (double y, double[2,2] dw) {
        three = Constant <value_int = 3> ()
        o = Optional (w)
        v = Loop (three, "", o) <body = b (int64 i, bool c, optional(double[2,2]) t)
            => (bool d, optional(double[2,2]) r) {
            d = Identity (c) u = OptionalGetElement (t)
            p = MatMul (u, w) q = Tanh (p) r = Optional (q) }>
        z = OptionalGetElement (v)
        y = ReduceSum <keepdims = 0> (z)
        dw = Gradient <xs = ["w"], y = "y"> (w)
    }"""
    assert_right(text, "y", "dw", ["w"])


def test_at_other_values() -> None:
    """What is given twice counts as two values; y at the values themselves stays as it is."""
    model = parse("""(double[3] x, double[3] w) => (double y, double z, double[3] dz) {
        h = Mul (x, x)
        p = Mul (h, w)
        e = Exp (p)
        y = ReduceSum <keepdims = 0> (e)
        s = Sin (w)
        yh, yw = Gradient <xs = ["h", "w"], y = "y"> (s, s)
        q = Mul (s, s)
        r = Exp (q)
        z = ReduceSum <keepdims = 0> (r)
        t = Add (yh, yw)
        u = Cos (w)
        dz = Mul (t, u)
    }""")
    x, w, dz = np.random.default_rng(0).uniform(-1, 1, (3, 3))
    run = compile(whileback.vjp(model, of="dz", wrt="w"))
    feeds = {"x": x, "w": w, "dz_grad": dz}
    got = run(feeds)
    np.testing.assert_allclose(got["y"], np.sum(np.exp(x * x * w)))
    np.testing.assert_allclose(got["dz"], differences(run, feeds, "z", "w", 1.0), 1e-6, 1e-8)
    slopes = differences(run, feeds, "dz", "w", dz)
    np.testing.assert_allclose(got["w_grad"], slopes, 1e-6, 1e-8)


def test_gradients_of_gradients() -> None:
    """The Hessian's product with ones, by a node that stands before the one it differentiates."""
    model = parse("""(double[3] x, double[3] w) => (double y, double[3] dw, double[3] ddw) {
        h = Mul (x, w)
        s = Sin (h)
        p = Mul (s, w)
        y = ReduceSum <keepdims = 0> (p)
        ddw = Gradient <xs = ["w"], zs = ["x"], y = "sum"> (w, x)
        dw = Gradient <xs = ["w"], zs = ["x"], y = "y"> (w, x)
        sum = ReduceSum <keepdims = 0> (dw)
    }""")
    x, w, v = np.random.default_rng(0).uniform(-1, 1, (3, 3))
    run = compile(whileback.vjp(model, of="ddw", wrt="w"))
    feeds = {"x": x, "w": w, "ddw_grad": v}
    got = run(feeds)
    for of, wanted, weights in (("y", "dw", 1.0), ("dw", "ddw", 1.0), ("ddw", "w_grad", v)):
        np.testing.assert_allclose(got[wanted], differences(run, feeds, of, "w", weights), 1e-6)


def test_results_that_nobody_asks_for() -> None:
    model = parse("""(double x, double w) => (double y, double dw) {
        y = Mul (x, w)
        "", dw = Gradient <xs = ["x", "w"], y = "y"> (x, w)
    }""")
    got = compile(whileback.gradient(model, of="dw", wrt="x"))(x=2.0, w=3.0)
    assert (got["dw"], got["x_grad"]) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (
            'y = Sin (x) [g] z = Gradient <xs = ["x"], y = "yy"> (x)',
            GraphError,
            "Node 'g' (Gradient) names 'yy', but the graph has no such value; did you mean 'y'?",
        ),
        (
            'y = Sin (x) [g] z = Gradient <xs = ["x"], y = "y"> (x)',
            UnsupportedError,
            "Node 'g' (Gradient) differentiates 'y', which is DOUBLE[3]: that has one gradient for "
            "each of its elements. Sum them, and differentiate the sum.",
        ),
        (
            'y = ReduceSum <keepdims = 0> (x) [g] z = Gradient <xs = ["x"], y = "y"> (x, x)',
            GraphError,
            "Node 'g' (Gradient) names 1 values in xs and zs, and reads 2. It has to read one for "
            "each, in their order.",
        ),
        (
            'a = ReduceSum (z) [g] b = Gradient <xs = ["x"], y = "a"> (x) '
            'c = ReduceSum (b) [h] z = Gradient <xs = ["x"], y = "c"> (x)',
            GraphError,
            "The nodes 'g', 'h' (Gradient) differentiate each other's results. Correct the model.",
        ),
        (
            "go = Constant <value = bool {1}> () z = If (go) <then_branch = t () => (double[3] a) "
            '{ y = ReduceSum <keepdims = 0> (x) [g] a = Gradient <xs = ["x"], y = "y"> (x) }, '
            "else_branch = e () => (double[3] b) { b = Identity (x) }>",
            UnsupportedError,
            "Node 'g' (Gradient) is inside a subgraph, where it is not expanded. Take it, and what "
            "it differentiates, out of there, or differentiate with whileback.gradient() instead.",
        ),
        (
            '[o] y = my.Own (x) s = Cos (y) '
            '[g] z = Gradient <xs = ["x"], y = "s"> (x)',
            NoGradientError,
            "The gradient meets operators that have no rule:\n  my@1::Own: node 'o'\n"
            'Register a rule for each with @whileback.rule("domain::Op"), or name other values in '
            "of= and wrt=, between which they do not lie. `whileback rules OP` tells more.",
        ),
    ],
)  # fmt: skip
def test_errors(nodes: str, error: type[Exception], message: str) -> None:
    info = "<double s>" if "my.Own" in nodes else ""
    model = parse(f"(double[3] x) => (double[3] z) {info} {{ {nodes} }}")
    with pytest.raises(error) as caught:
        whileback.vjp(model, of="z", wrt="x")
    assert str(caught.value) == message

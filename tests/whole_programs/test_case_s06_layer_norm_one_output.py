"""Conformance case S6: LayerNormalization of which only Y is asked for."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """<ir_version: 8, opset_import: ["" : %(opset)d]>
model (float[%(x)s] x, float[%(s)s] scale, float[%(s)s] bias) => (float[%(x)s] %(outputs)s) {
  %(results)s = LayerNormalization<axis = %(axis)d, epsilon = 1e-5>(x, scale%(bias)s)
}"""


def model(x="2,3", s="3", axis=-1, opset=17, bias=", bias", more=False):
    outputs = "y, float[A,1] mean, float[A,1] inverse" if more else "y"
    results = "y, mean, inverse" if more else "y"
    return MODEL % {
        "x": x, "s": s, "axis": axis, "opset": opset, "bias": bias,
        "outputs": outputs, "results": results,
    }  # fmt: skip


def by_hand(x, scale, seed):
    centred = x - x.mean(-1, keepdims=True)
    std = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    normal, g = centred / std, seed * scale
    dx = (g - g.mean(-1, keepdims=True) - normal * (g * normal).mean(-1, keepdims=True)) / std
    return dx, (seed * normal).sum(0), seed.sum(0)


@pytest.mark.parametrize("seed", [[[1, 1, 1], [1, 1, 1]], [[1, 10, 100], [-2, 0.5, 3]]])
def test_by_hand(seed):
    x, scale = np.array([[1.0, 2, 4], [0.5, -1, 3]]), np.array([2.0, 0.5, -1])
    dx, dscale, dbias = by_hand(x, scale, np.array(seed, float))
    f = pullback(model(), "y", "x scale bias")
    outputs = f(x=x.tolist(), scale=scale.tolist(), bias=[0, 1, 2], y_grad=seed)
    assert_numbers(outputs, atol=1e-4, x_grad=dx, scale_grad=dscale, bias_grad=dbias)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize(("x", "s", "axis"), [
    ("2,3", "3", 1), ("N,3", "3", -1), ("2,3,2", "3,2", 1),
    ("N,A,B", "B", -1), ("N,A,B", "A,B", -2),
])  # fmt: skip
@pytest.mark.parametrize("bias", [", bias", ""])
def test_shapes(x, s, axis, bias, opset):
    sizes = {"N": 2, "A": 3, "B": 4}
    shape = [sizes[d] if d in sizes else int(d) for d in x.split(",")]
    rng = np.random.default_rng(6)
    scale = shape[axis:]
    inputs = {"x": rng.normal(size=shape), "scale": rng.normal(size=scale)}
    inputs["bias"] = rng.normal(size=scale)
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    wrt = ["x", "scale"] + (["bias"] if bias else [])
    assert_gradient(model(x, s, axis, opset, bias), ["y"], wrt, inputs, elements=12, directions=2)


@pytest.mark.parametrize("more", [True, False])
def test_second_order(more):
    of = ["y", "mean", "inverse"] if more else ["y"]
    assert_gradient(model(more=more), of, ["x", "scale"], second_order=True)


def test_in_a_loop():
    text = """(int64 n, float[2,3] x, float[3] scale) => (float[2,3] y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float[2,3] v) => (bool go, float[2,3] u) {
        go = Identity(c)
        a = LayerNormalization(v, scale)
        u = Sin(a)
      }>
    }"""
    for n in (0, 2):
        assert_gradient(text, ["y"], ["x", "scale"], {"n": n})

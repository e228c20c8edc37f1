"""Conformance case 31: BatchNormalization in training mode: what `momentum` touches."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """<ir_version: 8, opset_import: ["" : 15]>
model (float[4,1] x, float[1] scale, float[1] bias, float[1] mean, float[1] var)
    => (float[4,1] y, float[1] new_mean, float[1] new_var) {
  y, new_mean, new_var = BatchNormalization<training_mode = 1, epsilon = 1e-5, momentum = %s>
    (x, scale, bias, mean, var)
}"""
AT = {"x": [[1], [2], [3], [6]], "scale": [2], "bias": [0.5], "mean": [0], "var": [1]}
Y = [[-1.63809], [-0.56904], [0.5], [3.70713]]
WRT = "x scale bias mean var"
NO_EFFECT = pytest.mark.filterwarnings("ignore:No value in of= depends on")


@NO_EFFECT
@pytest.mark.parametrize(("momentum", "mean", "var"), [("0.0", 3, 3.5), ("0.9", 0.3, 1.25)])
def test_ones(momentum, mean, var):
    outputs = pullback(MODEL % momentum, "y", WRT)(AT, y_grad=[[1]] * 4)
    assert_numbers({"y": outputs["y"]}, y=Y, atol=1e-5)
    assert_numbers(
        outputs, atol=1e-5, new_mean=[mean], new_var=[var], x_grad=[[0]] * 4, scale_grad=[0],
        bias_grad=[4], mean_grad=[0], var_grad=[0],
    )  # fmt: skip


@NO_EFFECT
@pytest.mark.parametrize("momentum", ["0.0", "0.9"])
def test_seed_that_is_not_uniform(momentum):
    outputs = pullback(MODEL % momentum, "y", WRT)(AT, y_grad=[[1], [10], [100], [1000]])
    seed, x = np.array([1.0, 10, 100, 1000]), np.array([1.0, 2, 3, 6])
    std = np.sqrt(3.5 + 1e-5)
    normal = (x - 3) / std
    dx = 2 / std * (seed - seed.mean() - normal * (seed * normal).mean())
    assert_numbers(
        outputs, atol=1e-3, x_grad=dx[:, None], scale_grad=[(seed * normal).sum()],
        bias_grad=[1111], mean_grad=[0], var_grad=[0],
    )  # fmt: skip


GENERAL = """<ir_version: 8, opset_import: ["" : 15]>
model (float[%(x)s] x, float[3] scale, float[3] bias, float[3] mean, float[3] var)
    => (float[%(x)s] y, float[3] new_mean, float[3] new_var) {
  y, new_mean, new_var = BatchNormalization<training_mode = 1, momentum = 0.75>
    (x, scale, bias, mean, var)
}"""


@pytest.mark.parametrize("shape", ["4,3", "N,3", "2,3,4", "N,3,H,W"])
@pytest.mark.parametrize("of", [["y"], ["y", "new_mean", "new_var"]])
def test_running_statistics_are_results_like_others(shape, of):
    inputs = {"mean": np.float32([0.5, -1, 2]), "var": np.float32([1.5, 0.5, 1])}
    wrt = ["x", "scale", "bias"] + (["mean", "var"] if len(of) > 1 else [])
    assert_gradient(GENERAL % {"x": shape}, of, wrt, inputs, elements=16)


@pytest.mark.parametrize("training", [0, 1])
def test_second_order(training):
    outputs = ", m, v" if training else ""
    model = f"""(float[3,2] x, float[2] scale, float[2] bias, float[2] mean, float[2] var)
        => (float[3,2] y) {{
      y{outputs} = BatchNormalization<training_mode = {training}>(x, scale, bias, mean, var)
    }}"""
    inputs = {"mean": [0.5, -1], "var": [1.5, 0.5]}
    wrt = ["x", "scale"] + ([] if training else ["mean", "var"])
    assert_gradient(model, ["y"], wrt, inputs, second_order=True)


def test_in_a_loop():
    """The running statistics are carried; what is normalized is the state itself."""
    model = """(int64 n, float[4,2] x, float[2] s, float[2] b, float[2] m, float[2] v)
        => (float[4,2] y, float[2] mn, float[2] vn) {
      y, mn, vn = Loop(n, , x, m, v) <body = body
          (int64 i, bool c, float[4,2] x1, float[2] m1, float[2] v1)
          => (bool go, float[4,2] x3, float[2] m2, float[2] v2) {
        go = Identity(c)
        x2, m2, v2 = BatchNormalization<training_mode = 1>(x1, s, b, m1, v1)
        x3 = Sin(x2)
      }>
    }"""
    inputs = {"n": 2, "m": [0, 1], "v": [1, 2]}
    assert_gradient(model, ["y", "mn", "vn"], ["x", "s", "b", "m", "v"], inputs)

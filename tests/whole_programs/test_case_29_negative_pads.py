"""Conformance case 29: pads that are negative crop, and are only known at run time."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float[1,1,4,4] x, int64[8] pads, float value) => (float[1,1,H,W] y) {
  y = Pad(x, pads, value)
}"""
X = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def run(pads, value, seed):
    f = pullback(MODEL, "y", "x value")
    return f(x=X, pads=pads, value=value, y_grad=np.asarray(seed, np.float32))


def test_all_is_cropped():
    outputs = run([0, 0, 4, 1, 0, 0, -4, -1], 0, np.ones((1, 1, 4, 4)))
    assert_numbers(outputs, y=np.zeros((1, 1, 4, 4)), x_grad=np.zeros((1, 1, 4, 4)), value_grad=16)


def test_crop():
    outputs = run([0, 0, -1, 0, 0, 0, 0, -2], 0, np.ones((1, 1, 3, 2)))
    dx = np.zeros((1, 1, 4, 4))
    dx[..., 1:, :2] = 1
    assert outputs["y"].shape == (1, 1, 3, 2)
    assert outputs["y"].sum() == 57
    assert_numbers(outputs, x_grad=dx, value_grad=0)
    seed = np.arange(1.0, 7).reshape(1, 1, 3, 2)
    dx[..., 1:, :2] = seed
    assert_numbers(run([0, 0, -1, 0, 0, 0, 0, -2], 0, seed), x_grad=dx, value_grad=0)


def test_both_signs():
    pads = [0, 0, 1, -1, 0, 0, -1, 1]
    dx = np.zeros((1, 1, 4, 4))
    dx[..., :3, 1:] = 1
    outputs = run(pads, 0, np.ones((1, 1, 4, 4)))
    assert_numbers(outputs, x_grad=dx, value_grad=7)
    seed = np.arange(1.0, 17).reshape(1, 1, 4, 4)
    dx[..., :3, 1:] = seed[..., 1:, :3]
    padded = seed[..., 0, :].sum() + seed[..., 1:, 3].sum()
    assert_numbers(run(pads, 2, seed), x_grad=dx, value_grad=padded)


PADS = ([0, 0, -1, 1, 0, 0, 2, -2], [0] * 8, [0, 0, 2, 2, 0, 0, 1, 1])
MODES = [(pads, mode) for mode in ("constant", "edge", "reflect", "wrap") for pads in PADS]
# Other modes add nothing to an axis of one element.
MODES += [([0, 1, 0, -3, 1, 0, -2, 0], "constant")]


@pytest.mark.parametrize(("pads", "mode"), MODES)
@pytest.mark.parametrize("constant", [True, False])
def test_modes(pads, mode, constant):
    dims = "1,1,4,4" if constant else "A,B,C,D"
    if constant:
        given = f"pads = Constant<value = int64[8] {{{', '.join(map(str, pads))}}}>()"
        model = f"""(float[{dims}] x, float value) => (float[E,F,G,H] y) {{
          {given}
          y = Pad<mode = "{mode}">(x, pads, value)
        }}"""
        inputs = {"x": X / 4}
    else:
        model = f"""(float[{dims}] x, int64[8] pads, float value) => (float[E,F,G,H] y) {{
          y = Pad<mode = "{mode}">(x, pads, value)
        }}"""
        inputs = {"x": X / 4, "pads": pads}
    wrt = ["x", "value"] if mode == "constant" else ["x"]
    assert_gradient(model, ["y"], wrt, inputs)


def test_chosen_axes():
    model = """(float[N,4] x, int64[2] pads, float value) => (float[N,M] y) {
      axes = Constant<value = int64[1] {-1}>()
      p = Pad(x, pads, value, axes)
      y = Mul(p, p)
    }"""
    for pads in ([1, -2], [-3, -1], [2, 0], [-1, 3]):
        inputs = {"pads": pads, "value": 0.75}
        assert_gradient(model, ["y"], ["x", "value"], inputs, second_order=True)

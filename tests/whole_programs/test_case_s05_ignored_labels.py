"""Conformance case S5: SoftmaxCrossEntropyLoss with labels that are to be ignored."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

MODEL = """(float[3,2] x, int64[3] t) => (float loss) {
  loss = SoftmaxCrossEntropyLoss<ignore_index = -1, reduction = "mean">(x, t)
}"""
X = [[1, 2], [0, 0], [3, 1]]
DX = np.array([[0.1344707, -0.1344707], [0, 0], [-0.0596015, 0.0596015]])


def test_one_label_is_ignored():
    f = pullback(MODEL, "loss", "x")
    outputs = f(x=X, t=[1, -1, 0], loss_grad=1)
    assert_numbers(outputs, loss=0.2200949, x_grad=DX)
    assert_numbers(f(x=X, t=[1, -1, 0], loss_grad=-4), x_grad=-4 * DX)


def test_all_are_ignored():
    outputs = pullback(MODEL, "loss", "x")(x=X, t=[-1, -1, -1], loss_grad=1)
    assert np.isnan(outputs["loss"])
    assert_numbers(outputs, x_grad=np.zeros((3, 2)))


@pytest.mark.parametrize("op", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("shape", ["4,3", "N,3", "2,3,2", "N,3,H,W"])
def test_kinds(op, reduction, weights, shape):
    sizes = {"N": 4, "H": 2, "W": 3}
    dims = [sizes[d] if d in sizes else int(d) for d in shape.split(",")]
    labels = ",".join(d for i, d in enumerate(shape.split(",")) if i != 1)
    result = f"float[{labels}]" if reduction == "none" else "float"
    model = f"""(float[{shape}] x, int64[{labels}] t, float[3] w) => ({result} loss) {{
      loss = {op}<ignore_index = 5, reduction = "{reduction}">(x, t{", w" if weights else ""})
    }}"""
    rng = np.random.default_rng(5)
    t = rng.choice([0, 1, 2, 5], size=[d for i, d in enumerate(dims) if i != 1])
    t.flat[0], t.flat[1] = 2, 5
    inputs = {
        "x": rng.normal(size=dims).astype(np.float32),
        "t": t.astype(np.int64),
        "w": np.float32([0.5, 1.5, 2]),
    }
    second_order = op.startswith("S") and shape == "N,3"
    wrt = ["x", "w"] if weights else ["x"]
    assert_gradient(
        model, ["loss"], wrt, inputs, second_order=second_order, elements=8, directions=2
    )

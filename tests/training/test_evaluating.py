"""Evaluations compute what the model does when nothing is trained, and the losses of its step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge import parse

from whileback import training
from whileback.engines import compile
from whileback.errors import ArgumentError

# Everything that is otherwise in training, at two depths.
TRAINED = """(float[N,2] x, bool c) => (float[N,2] y, float[2] mean)
    <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {1, 2}, float[2] v = {4, 9},
     float r = {0.5}, bool t = {1}> {
    n, mean, var = BatchNormalization<epsilon = 0.0, training_mode = 1>(x, s, b, m, v)
    d = Dropout(n, r, t)
    y = If(c) <then_branch = g () => (float[N,2] p) { p = Dropout(d, r, t) },
               else_branch = h () => (float[N,2] q) { q = Neg(d) }>
}"""
LOSSES = [training.mse("y", label="target", weight=2.0), training.l1("mean", label="centre")]


def test_nothing_is_as_in_training() -> None:
    model = parse(TRAINED)
    step = training.step(model, LOSSES, "sgd")
    f = compile(training.evaluation(model, LOSSES, step))
    x, s, b = np.array([[1, 2], [5, 8]], "f"), np.array([1, 2], "f"), np.array([0, 1], "f")
    m, v = np.array([1, 2], "f"), np.array([4, 9], "f")
    for c, sign in ((True, 1), (False, -1)):
        out = f(x=x, c=c, target=np.zeros((2, 2), "f"), centre=[0.0, 0.0])
        y = sign * ((x - m) / np.sqrt(v) * s + b)
        np.testing.assert_allclose(out["y"], y, rtol=1e-6)
        assert out["mean"].tolist() == m.tolist()
        assert out["loss_0"] == pytest.approx(2 * (y**2).mean())
        assert out["loss_1"] == pytest.approx(m.mean())
        assert out["loss"] == pytest.approx(out["loss_0"] + out["loss_1"])
    assert list(f.outputs) == ["loss", "loss_0", "loss_1", "y", "mean"]
    assert list(f.inputs) == ["x", "c", "target", "centre", "s", "b", "m", "v"]
    assert set(f.outputs) & set(compile(step).outputs) == {"loss", "loss_0", "loss_1"}


def test_the_step_of_another_model() -> None:
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    other = parse("(float[2] x) => (float[2] y) <float[2] v = {1, 2}> { y = Mul(x, v) }")
    with pytest.raises(ArgumentError) as caught:
        training.evaluation(other, "mse", training.step(model, "mse", "sgd"))
    assert str(caught.value) == (
        "Model 'model' has no parameter 'w', which step 'model' has. Give the model that the step "
        "was made of."
    )

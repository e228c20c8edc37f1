import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp

REDUCTIONS = ["none", "sum", "mean"]


def labels(shape, ignore):
    drawn = np.random.default_rng(1).integers(0, 4, shape)
    drawn.flat[:2] = 0, 2
    if ignore is not None:
        drawn.flat[1] = ignore
    return drawn


def signature(dims, reduction, ignore, weighted):
    """Return the inputs, the attributes and the type of the loss, as text."""
    attributes = f'reduction = "{reduction}"'
    attributes += "" if ignore is None else f", ignore_index = {ignore}"
    third = ", float[4] w" if weighted else ""
    inputs = f"float[3,4{dims}] x, int64[3{dims}] t{third}"
    return inputs, attributes, f"float[3{dims}]" if reduction == "none" else "float"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [None, -1, 2, 255])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_both_losses(reduction, ignore, weighted):
    inputs, attributes, type_ = signature("", reduction, ignore, weighted)
    arguments = "x, t, w" if weighted else "x, t"
    values = {"t": labels((3,), ignore)}
    values |= {"w": np.array([0.5, 2, 1.5, 1], np.float32)} if weighted else {}
    wrt = ["x", "w"] if weighted else ["x"]
    for operator in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
        model = f"({inputs}) => ({type_} y) {{ y = {operator}<{attributes}>({arguments}) }}"
        assert_gradient(model, ["y"], wrt, values, second_order=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_more_axes_and_log_probabilities(reduction):
    inputs, attributes, type_ = signature(",2,2", reduction, 2, True)
    model = f"""({inputs}) => ({type_} y, float[3,4,2,2] p) {{
      y, p = SoftmaxCrossEntropyLoss<{attributes}>(x, t, w)
    }}"""
    values = {"t": labels((3, 2, 2), 2), "w": np.array([0.5, 2, 1.5, 1], np.float32)}
    assert_gradient(model, ["y", "p"], ["x", "w"], values)
    assert_gradient(model, ["p"], ["x"], values)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2)])
def test_an_unknown_rank(shape):
    model = """(float[N] x, int64[R] s, int64[M] t, int64[Q] r) => (float y) {
      scores = Reshape(x, s)
      labels = Reshape(t, r)
      y = SoftmaxCrossEntropyLoss(scores, labels)
    }"""
    own = (shape[0], *shape[2:])
    values = {"s": np.array(shape), "t": labels(own, None).reshape(-1), "r": np.array(own)}
    values["x"] = np.random.default_rng(2).normal(size=np.prod(shape)).astype(np.float32)
    assert_gradient(model, ["y"], ["x"], values)


def test_labels_of_32_bits():
    model = "(float[B,C] x, int32[B] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }"
    values = {"x": np.eye(3, 4, dtype=np.float32), "t": np.array([0, 3, 1], np.int32)}
    assert_gradient(model, ["y"], ["x"], values)


def test_an_ignored_label():
    """Conformance case S5."""
    model = """(float[3,2] x, int64[3] t) => (float y) {
      y = SoftmaxCrossEntropyLoss<ignore_index = -1>(x, t)
    }"""
    x = [[1, 2], [0, 0], [3, 1]]
    got = gradients(model, {"x": x, "t": np.array([1, -1, 0])})
    want = [[0.13447, -0.13447], [0, 0], [-0.05960, 0.05960]]
    np.testing.assert_allclose(got["x"], want, atol=1e-5)
    got = gradients(model, {"x": x, "t": np.array([-1, -1, -1])})
    assert got["x"].tolist() == [[0, 0], [0, 0], [0, 0]]


def test_a_mean_of_nothing_has_no_gradient_for_the_weights():
    model = """(float[2,2] x, int64[2] t, float[2] w) => (float y) {
      y = NegativeLogLikelihoodLoss<ignore_index = 1>(x, t, w)
    }"""
    got = gradients(model, {"x": [[1, 2], [3, 4]], "t": np.array([1, 1]), "w": [1, 2]})
    assert (got["x"].any(), got["w"].any()) == (False, False)


LOSSES = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_classes_that_cannot_be_do_not_spoil_the_others(loss, reduction):
    model = f"""(float[2,3] x, int64[2] t, float[3] w) => (float[M] y) {{
      l = {loss}<reduction = "{reduction}">(x, t, w)
      flat = Constant<value_ints = [-1]>()
      y = Reshape(l, flat)
    }}"""
    others = {"t": np.array([1, 0]), "w": [1, 2, 3]}
    x = [[0.5, -1, -np.inf], [-0.75, -np.inf, 0.25]]
    got, want = (
        gradients(model, {"x": each} | others) for each in (x, np.maximum(x, -99).tolist())
    )
    np.testing.assert_allclose(got["x"], want["x"], atol=1e-6)
    np.testing.assert_allclose(got["w"], want["w"], atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_mean_of_many_has_exact_gradients_for_the_weights(loss):
    model = f"""(FLOAT[3,5,N] x, int64[3,N] t, FLOAT[5] w) => (FLOAT y) {{
      y = {loss}(x, t, w)
    }}"""
    rng = np.random.default_rng(3)
    x = np.float32(rng.normal(size=(3, 5, 20000)) - 3)
    t, w = rng.integers(0, 5, (3, 20000)), np.float32([0.25, 0.5, 1, 0.75, 0.5])
    exact, own = (
        compile(vjp(parse(model.replace("FLOAT", name)), "y", "w"))(
            x=x.astype(dtype), t=t, w=w.astype(dtype), y_grad=np.ones((), dtype)
        )["w_grad"]
        for name, dtype in (("double", np.float64), ("float", np.float32))
    )
    np.testing.assert_allclose(own, exact, atol=2e-8)

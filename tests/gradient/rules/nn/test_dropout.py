import numpy as np
import pytest
from tests.gradient.rules.nn.single import judge, values
from tests.judge import parse

from whileback.engines import compile
from whileback.gradient import vjp

X = np.linspace(1, 2, 60, dtype=np.float32)
SEED = np.linspace(-1, 3, 60, dtype=np.float32)


def run(body, outputs="float[60] y", **inputs):
    """Return what a model and its gradient compute, for an input and a cotangent without zeros."""
    model = f"(float[60] x, float r, bool t) => ({outputs}) {{ {body} }}"
    graph = vjp(parse(model), of="y", wrt="x")
    return compile(graph)({"x": X, "r": np.float32(0.25), "t": True, "y_grad": SEED} | inputs)


@pytest.mark.parametrize("outputs", ["float[60] y", "float[60] y, bool[60] mask"])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.9])
def test_the_gradient_goes_through_the_mask_that_was_drawn(ratio, outputs):
    names = "y, mask" if "mask" in outputs else "y"
    results = run(f"{names} = Dropout(x, r, t)", outputs, r=np.float32(ratio))
    assert (results["y"] == 0).any() == (ratio > 0)
    np.testing.assert_allclose(results["x_grad"], SEED * results["y"] / X, rtol=1e-5)


def test_constant_arguments():
    known = "r1 = Constant<value = float {0.25}>() t1 = Constant<value = bool {1}>()"
    results = run(f"{known} y = Dropout(x, r1, t1)")
    assert 0 < (results["y"] == 0).sum() < 60
    np.testing.assert_allclose(results["x_grad"], SEED * results["y"] / X, rtol=1e-5)


def test_the_default_ratio():
    results = run("y = Dropout(x, , t)")
    np.testing.assert_allclose(results["x_grad"], SEED * results["y"] / X, rtol=1e-5)
    assert set(np.round(results["y"] / X, 3)) == {0, 2}


@pytest.mark.parametrize("body", ["y = Dropout(x)", "y = Dropout(x, r)", "y = Dropout(x, r, no)"])
def test_no_gradient_is_lost_at_inference(body):
    results = run(f"no = Constant<value = bool {{0}}>() {body}")
    np.testing.assert_array_equal(results["x_grad"], SEED)


def test_inference_needs_no_mask():
    model = "(float[2] x) => (float[2] y) { y = Dropout(x) }"
    graph = vjp(parse(model), of="y", wrt="x").graph
    assert [len(node.outputs) for node in graph if node.op_type == "Dropout"] == [1]


@pytest.mark.parametrize("kind", ["known", "symbols", "unknown"])
def test_training_that_only_the_run_knows_of(kind):
    arguments = {"x": values(2, 3), "r": np.array(0.5, np.float32), "t": np.array(False)}
    judge("Dropout", kind, wrt=["x"], **arguments)

"""Which programs are compiled for a model, and what `explain` tells of them."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.engines.xla.programs import compiled, model, recurrence

from whileback.engines import compile
from whileback.errors import EngineError
from whileback.gradient import vjp

# Two models in one: what the condition does not choose does not fit the shape of x.
FITTING = """fitting (float[N] x, int64 which, float[2,2] w) => (float[2] y) {
    two = Constant<value = int64 {2}>()
    small = Equal(which, two)
    y = If (small) <
        then_branch = t () => (float[2] u) { [narrow] u = MatMul(w, x) },
        else_branch = e () => (float[2] v) {
            pairs = Constant<value = int64[2] {2, 2}>()
            [fold] m = Reshape(x, pairs)
            axes = Constant<value = int64[1] {0}>()
            v = ReduceSum<keepdims = 0>(m, axes)
        }
    >
}"""
W = np.float32([[1, 2], [3, 4]])


@pytest.mark.parametrize("size", [2, 4])
def test_a_branch_that_the_shapes_do_not_fit(size: int) -> None:
    """It is not run, so that it does no harm, as long as the condition is known or can be."""
    f = compiled(FITTING)
    x = np.arange(size, dtype=np.float32)
    expected = W @ x if size == 2 else x[:2] + x[2:]
    np.testing.assert_allclose(f(x=x, which=size, w=W)["y"], expected)
    found = jax.jit(lambda x: f(x=x, which=np.array(size), w=W)["y"])(x)
    np.testing.assert_allclose(found, expected)
    grad = jax.grad(lambda x: f(x=x, which=jnp.array(size), w=W)["y"].sum())(jnp.asarray(x))
    np.testing.assert_allclose(grad, W.sum(0) if size == 2 else np.ones(4))
    with pytest.raises(EngineError, match=r"know 'condition' .* Pass 'which' as"):
        jax.jit(lambda which: f(x=jnp.asarray(x), which=which, w=W))(size)


def test_a_branch_that_is_run_and_does_not_fit() -> None:
    f = compiled(FITTING)
    with pytest.raises(EngineError, match="cannot run MatMul 'narrow'"):
        f(x=np.ones(4, np.float32), which=2, w=W)
    with pytest.raises(EngineError, match="cannot run Reshape 'fold'"):
        f(x=np.ones(2, np.float32), which=4, w=W)


def test_what_explain_tells() -> None:
    """Large weights are arguments of a program, and not of the model."""
    table = ", ".join(["1"] * 2000)
    f = compiled(f"""large (float[N] x) => (float[N] y) <float[2000] table = {{{table}}}> {{
        total = ReduceSum<keepdims = 0>(table)
        y = Mul(x, total)
    }}""")
    assert f.explain() == "'large' on XLA:\nnothing is compiled before the first call"
    for size in (3, 3, 5):
        f(x=np.ones(size, np.float32))
    assert re.sub(r"\d\.\d\d", "…", f.explain()) == (
        "'large' on XLA:\n"
        "for x float32[3]:\n  whole, … s to compile\n"
        "for x float32[5]:\n  whole, … s to compile"
    )


def test_each_run_draws_other_numbers() -> None:
    f = compiled("""draws (float[4] x) => (float[4] y) {
        r = RandomUniformLike (x)
        y = Add(r, x)
    }""")
    for array in (np.zeros(4, np.float32), jnp.zeros(4)):
        drawn = {tuple(np.asarray(f(x=array)["y"]).tolist()) for _ in range(4)}
        assert len(drawn) == 4


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_trips_that_are_an_argument_are_known_before_the_run(array: Callable[..., Any]) -> None:
    gradient = vjp(model(recurrence(rows="1")), "y", ["w"])
    f = compile(gradient, engine="xla")
    x, w = np.full((1, 4), 0.5, np.float32), np.eye(4, dtype=np.float32)
    for trips in (3, 1, 3, 0, 5):
        given = {"x": x, "w": w, "m": np.array(trips), "y_grad": x}
        wanted = compile(gradient)(given)["w_grad"]
        found = f({name: array(each) for name, each in given.items()})["w_grad"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert "first part" not in f.explain()

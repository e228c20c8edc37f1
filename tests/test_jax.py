"""Models as pure functions of JAX's, beside the same written in JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.judge import parse
from tests.trainer import models

import whileback
from whileback.jax import function

LOOP = """(float[N,2] x, int64 n) => (float[N,2] y) <float[2,2] w = {0.1, 0.2, -0.3, 0.4}> {
    y = Loop(n, "", x) <body = trip (int64 i, bool c, float[N,2] v) => (bool d, float[N,2] z) {
        d = Identity(c)
        p = MatMul(v, w)
        z = Tanh(p)
    }>
}"""
X = np.random.default_rng(0).normal(size=(4, 2)).astype("f")


def in_jax(params: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ params["w"]), x)


def test_a_loop_is_transformed_as_jax_does_its_own() -> None:
    f, params = function(parse(LOOP))

    def loss(params: Any, x: Any) -> Any:
        return jnp.sum(f(params, x=x, n=3)["y"] ** 2)

    def loss_in_jax(params: Any, x: Any) -> Any:
        return jnp.sum(in_jax(params, x) ** 2)

    x, slopes = jnp.asarray(X)[:, None], (0, 1)
    got = jax.jit(jax.vmap(jax.value_and_grad(loss, slopes), (None, 0)))(params, x)
    want = jax.vmap(jax.value_and_grad(loss_in_jax, slopes), (None, 0))(params, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-6), got, want)


def test_descent_makes_the_losses_of_a_step() -> None:
    """Gradient descent written by hand, in one program, statistics of batches included."""
    f, params = function(models.model(), training=True)
    kept = {"m": jnp.zeros(4), "v": jnp.ones(4)}

    @jax.jit
    def step(params: Any, kept: Any, x: Any, label: Any) -> Any:
        def loss(params: Any) -> Any:
            out = f(params, kept, x=x)
            chosen = jnp.take_along_axis(out["p"], label[:, None], 1)
            return -jnp.mean(jnp.log(chosen)), {name: out[f"{name}_next"] for name in kept}

        (value, kept), slopes = jax.value_and_grad(loss, has_aux=True)(params)
        return value, jax.tree.map(lambda w, slope: w - 0.1 * slope, params, slopes), kept

    trainer = models.trainer(optimizer="sgd")
    for seed in range(10):
        batch = models.data(rows=16, seed=seed)
        value, params, kept = step(params, kept, batch["x"], batch["label"])
        assert float(value) == pytest.approx(trainer.step(batch, 0.1)["loss"], abs=1e-5)
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose({**params, **kept}[name], array, 0, 1e-5)


def test_what_is_trained_and_what_is_drawn() -> None:
    f, params = function(models.model(), trainable=["w", "b"])
    assert [*params] == ["w", "b"]
    x = models.data(rows=3)["x"]
    want = whileback.compile(models.model())(x=x)["p"]
    np.testing.assert_allclose(f(params, x=x)["p"], want, 0, 1e-6)
    drops = parse(
        "(float[N] x) => (float[N] y) <bool t = {1}, float r = {0.5}> "
        "{ y, mask = Dropout(x, r, t) }"
    )
    drawn, none = function(drops, training=True)
    ones = jnp.ones(64)
    first, again, other = (drawn(none, x=ones, seed=seed)["y"] for seed in (1, 1, 2))
    assert jnp.array_equal(first, again) and not jnp.array_equal(first, other)
    still, none = function(drops)
    assert jnp.array_equal(still(none, x=ones)["y"], ones)


def test_refusals() -> None:
    f, params = function(parse(LOOP))
    with pytest.raises(whileback.ArgumentError) as caught:
        f(params, x=X, m=3)
    assert str(caught.value) == ("Model 'model' has no input 'm'; there are 3: 'x', 'n', 'w'")

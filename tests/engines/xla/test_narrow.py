"""Where JAX knows 32 bits only, which it does unless it is told otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.engines.xla.programs import compiled, recurrence

DRAW = np.random.default_rng(0)
X, W = DRAW.normal(size=(3, 4)), DRAW.normal(size=(4, 4)) * 0.7
WIDE = compiled(recurrence("double"))


def loss_in_jax(x, w, m):
    y = jax.lax.fori_loop(0, m, lambda _, y: jnp.tanh(y @ w), x)
    return jnp.sum(y * y)


def test_arrays_of_32_bits_are_taken_and_given_back():
    x, w, m = jnp.array(X), jnp.array(W), jnp.array(5)
    assert (x.dtype, m.dtype) == (jnp.float32, jnp.int32)
    got = WIDE(x=x, w=w, m=m)
    assert got["y"].dtype == jnp.float32
    np.testing.assert_allclose(got["y"], WIDE(x=X, w=W, m=5)["y"], rtol=1e-6)
    assert WIDE(x=X, w=W, m=5)["y"].dtype == np.float64


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradients_of_a_model_of_64_bits(wrapped):
    x, w, m = jnp.array(X), jnp.array(W), jnp.array(5)

    def loss(x, w, m):
        return WIDE(x=x, w=w, m=m)["loss"]

    want = jax.grad(loss_in_jax, (0, 1))(x, w, 5)
    batch = jnp.stack([x, x]), w, jnp.stack([m, m])
    one = wrapped(jax.grad(loss, (0, 1)))(x, w, m)
    two = wrapped(jax.vmap(jax.grad(loss, (0, 1)), (0, None, 0)))(*batch)
    for got in (one, jax.tree.map(lambda leaf: leaf[1], two)):
        assert [each.dtype for each in got] == [jnp.float32, jnp.float32]
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, 1e-4), got, want)


def test_whole_numbers_are_64_bits_inside():
    """2⁴⁰ never leaves the program, so nothing is lost."""
    f = compiled("""large (int64[2] k) => (int64[2] back, bool[2] same) {
        far = Constant<value_int=1099511627776>()
        sum = Add(k, far)
        back = Sub(sum, far)
        same = Equal(back, k)
    }""")
    k = jnp.array([1, -7])
    for got in (f(k=k), jax.jit(f)({"k": k}), jax.vmap(lambda k: f(k=k))(jnp.stack([k, k]))):
        assert got["back"].dtype == jnp.int32
        np.testing.assert_array_equal(got["back"], jnp.broadcast_to(k, got["back"].shape))
        assert got["same"].all()

"""What has to be known while a program is compiled, and what the engine says if it is traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.engines.xla.programs import compiled

from whileback.engines.xla.control import unrolled
from whileback.errors import EngineError

ADVICE = "or call the model outside of jax.jit, jax.vmap and the like."
RESHAPED = """reshaped (float[A] x, int64[2] s) => (float[B,C] y) {
    [turn] y = Reshape(x, s)
}"""
FOUND = "found (float[A] x) => (int64[1,B] y) { [find] y = NonZero(x) }"
STACKED = """stacked (float[4] x, int64 m) => (float[4] y, float[T,4] ys) {
    y, ys = Loop (m, , x) <body = trip (int64 i, bool c, float[4] a)
                               => (bool d, float[4] e, float[4] h) {
        d = Identity(c)
        e = Tanh(a)
        h = Identity(a)
    }>
}"""
GROWN = """grown (float[A] x, int64 m) => (float[B] y) {
    [grow] y = Loop (m, , x) <body = trip (int64 i, bool c, float[N] a) => (bool d, float[M] e) {
        d = Identity(c)
        e = Concat<axis=0>(a, a)
    }>
}"""


@pytest.mark.parametrize(
    ("text", "feeds", "message"),
    [
        (
            RESHAPED,
            {"x": np.ones(6, np.float32), "s": [2, 3]},
            "Model 'reshaped' is being traced by JAX, and node 'turn' (Reshape) has to know "
            "'shape' while it is compiled, which depends on the values of 's'. Pass 's' as "
            f"an array of NumPy's, {ADVICE}",
        ),
        (
            FOUND,
            {"x": np.ones(6, np.float32)},
            "Model 'found' is being traced by JAX, and node 'find' (NonZero) has to know 'count' "
            "while it is compiled, which depends on the values of 'x'. Pass 'x' as an array of "
            f"NumPy's, {ADVICE}",
        ),
        (
            STACKED,
            {"x": np.ones(4, np.float32), "m": 3},
            "Model 'stacked' is being traced by JAX, and the length of output 'ys' is only known "
            "when it runs. Pass the inputs that decide about it as arrays of NumPy's, leave it out "
            f"of the model, {ADVICE}",
        ),
        (
            GROWN,
            {"x": np.ones(1, np.float32), "m": 3},
            "Model 'grown' is being traced by JAX, and node 'grow' (Loop) has to know the shapes "
            "of what it carries while it is compiled, which depends on the values of 'm'. Pass "
            f"'m' as an array of NumPy's, {ADVICE}",
        ),
    ],
    ids=["shape", "count", "output", "carried"],
)
def test_what_has_to_be_known(text, feeds, message):
    """It need not be outside of `jax.jit`, nor where what decides is known."""
    f = compiled(text)
    arrays = {name: jnp.asarray(value) for name, value in feeds.items()}
    with pytest.raises(EngineError) as error:
        jax.jit(f)(arrays)
    assert str(error.value) == message
    want = f(feeds)
    known = [f(arrays)]
    if len(feeds) > 1:
        known.append(jax.jit(lambda x: f({**feeds, "x": x}))(arrays["x"]))
    for got in known:
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, 1e-6), got, want)


def test_gradients_of_what_only_a_run_knows():
    g = compiled(RESHAPED)
    x = jnp.arange(6.0)
    got = jax.grad(lambda x: jnp.sum(g(x=x, s=jnp.array([2, 3]))["y"] ** 2))(x)
    np.testing.assert_allclose(got, 2 * x)


def test_more_trips_than_are_written_out(monkeypatch):
    monkeypatch.setattr(unrolled, "MOST", 5)
    f = compiled(GROWN)
    assert f(x=np.ones(1, np.float32), m=5)["y"].shape == (32,)
    with pytest.raises(EngineError) as error:
        f(x=np.ones(1, np.float32), m=6)
    assert str(error.value) == (
        "The engine 'xla' would have to write out loop 'grow', which carries sequences or values "
        "of other shapes in every trip, for more than 5 trips. Run the model with "
        "engine='onnxruntime'."
    )

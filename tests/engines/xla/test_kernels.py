"""Loops as functions of machine code: the same numbers, whatever the loops do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tests.engines.xla.programs import compiled, model, recurrence

from whileback.engines import compile
from whileback.engines.xla.control import loop
from whileback.engines.xla.control.kernel import PRIMITIVES, _operations, as_kernel
from whileback.engines.xla.model import Model
from whileback.gradient import vjp

FLOATS: list[Callable[[Any], Any]] = [
    jnp.abs, jnp.sin, jnp.cos, jnp.tan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.exp, jnp.exp2, jnp.expm1,
    jnp.floor, jnp.ceil, jnp.sign, jnp.square, jnp.cbrt, lax.logistic, lax.erf, lax.erfc,
    jnp.arctan, jnp.arcsinh, lax.stop_gradient, jnp.transpose, jnp.copy, jnp.ravel,
    lambda x: -x, lambda x: x + x, lambda x: x - 0.5, lambda x: x * x, lambda x: x / 3,
    lambda x: lax.log(jnp.abs(x) + 1), lambda x: jnp.log1p(jnp.abs(x)), lambda x: lax.sqrt(x * x),
    lambda x: lax.rsqrt(x * x + 1), lambda x: lax.pow(x * x, x), lambda x: x**3,
    lambda x: lax.asin(x / 9), lambda x: lax.acos(x / 9), lambda x: lax.acosh(x * x + 1),
    lambda x: lax.atanh(x / 9), lambda x: lax.atan2(x, x + 1), lambda x: lax.rem(x, 1 + x * 0),
    lambda x: lax.round(x), lambda x: lax.clamp(x * 0, x, x * 0 + 1), lambda x: lax.max(x, x * x),
    lambda x: lax.min(x, x * x), lambda x: lax.is_finite(x).astype(x.dtype),
    lambda x: lax.concatenate([x, x], 1), lambda x: lax.pad(x, x[0, 0], [(1, 0, 1), (0, 2, 0)]),
    lambda x: lax.rev(x, (0,)), lambda x: jnp.split(x, 2)[1],
    lambda x: lax.slice(x, (1, 0), (2, 2)),
    lambda x: lax.dynamic_slice(x, (jnp.int32(1), jnp.int32(0)), (1, 2)),
    lambda x: lax.dynamic_update_slice(x, x[:1], (jnp.int32(1), jnp.int32(0))),
    lambda x: x.sum(0), lambda x: x.max(1), lambda x: x.min(1), lambda x: jnp.where(x > 0, x, 0),
    lambda x: x @ x[0], lambda x: x[:1] @ x, lambda x: lax.broadcast_in_dim(x, (3, 2, 2), (1, 2)),
    lambda x: lax.squeeze(x[:1], (0,)), lambda x: lax.optimization_barrier(x),
    lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    lambda x: lax.while_loop(lambda y: y[0, 0] < 9, lambda y: y + 5, x),
    lambda x: jax.jit(jnp.sin)(x) + lax.iota(x.dtype, 2), lambda x: as_kernel(jnp.sin, x),
]  # fmt: skip
NUMBERS: list[Callable[[Any], Any]] = [
    lambda n: (n < 1) | (n > 1), lambda n: (n <= 1) & (n >= 1), lambda n: (n == 1) ^ (n != 2),
    lambda n: ~(n > 0), lambda n: (n > 0).all(1), lambda n: (n > 0).any(1), lambda n: n // 2,
    lambda n: n.sum(0), lambda n: n.astype("float32"),
]  # fmt: skip


def every(x: jax.Array, trips: jax.Array) -> Any:
    """Make some trips that do everything, and return what the last one gives."""

    def trip(_: Any, state: Any) -> Any:
        whole = lax.round(state[0]).astype("int64")
        floats = [function(state[0]) for function in FLOATS]
        return jnp.tanh(state[0] * 1.5 + 0.1), floats, [function(whole) for function in NUMBERS]

    kinds = jax.eval_shape(trip, 0, (x,))
    start = jax.tree.map(lambda kind: jnp.zeros(kind.shape, kind.dtype), kinds)
    return lax.fori_loop(0, trips, trip, (x, *start[1:]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_operation_does_the_same(dtype: str) -> None:
    with jax.enable_x64(True):
        x, trips = jnp.array([[0.3, -1.2], [2.1, 0.7]], dtype), jnp.array(3)
        wanted = jax.jit(every)(x, trips)
        found = jax.jit(lambda *given: as_kernel(lambda given: every(*given), given))(x, trips)
        digits = 2e-2 if dtype == "bfloat16" else 1e-5
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
            np.testing.assert_allclose(one, other, rtol=digits, atol=digits)
        names = {each.primitive.name for each in _operations(jax.make_jaxpr(every)(x, trips).jaxpr)}
    assert names == PRIMITIVES


def test_operands_that_are_constants_or_of_no_use_are_no_harm() -> None:
    def run(state: Any) -> Any:
        x, _unused, constant = state
        done = lax.while_loop(
            lambda s: s[0] < constant, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x)
        )
        return done[1], x * 0 + 1, constant

    found = jax.jit(lambda x, y: as_kernel(run, (x, y, jnp.int32(2)))[0])(1.0, 2.0)
    assert found == pytest.approx(np.sin(np.sin(1.0)))


def is_marked(text: str) -> bool:
    compiled = Model.of("m", model(text))
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(1, 4)), "w": rng.normal(size=(4, 4)), "m": np.array(7)}
    given = {n: np.asarray(v, "int64" if n == "m" else "float32") for n, v in feeds.items()}
    compiled.run(given)
    return 'inlineable="false"' in compiled.text(given)


def test_small_loops_become_functions_and_others_do_not() -> None:
    assert is_marked(recurrence(rows="1"))
    product = recurrence(rows="1").replace(
        "p = MatMul(a, w)", "ww = MatMul(w, w) p = MatMul(a, ww)"
    )
    assert not is_marked(product)


@pytest.mark.parametrize("trips", [0, 1, 3, 4, 6, 8])
def test_any_number_of_trips(trips: int) -> None:
    """Trips are made four at once, and what is left one by one."""
    gradient = vjp(model(recurrence(rows="1")), "loss", ["x", "w"])
    rng = np.random.default_rng(trips)
    feeds = {"x": rng.normal(size=(1, 4)), "w": rng.normal(size=(4, 4)), "loss_grad": np.array(1)}
    given = {name: value.astype("float32") for name, value in feeds.items()}
    given["m"] = np.array(trips)
    given = {name: given[name] for name in compile(gradient).inputs}
    wanted = compile(gradient)(given)
    for name, value in compile(gradient, "xla")(given).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_what_no_function_can_do_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA has no code for products of larger matrices there, and says so when it compiles."""
    monkeypatch.setattr(loop, "is_kernel", lambda trip: True)
    f = compiled(recurrence(rows="B", size="16"))
    x, w = np.full((16, 16), 0.1, "float32"), np.full((16, 16), 0.01, "float32")
    found = f(x=x, w=w, m=np.array(3))
    wanted = x
    for _ in range(3):
        wanted = np.tanh(wanted @ w)
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5)

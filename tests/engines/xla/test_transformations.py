"""What JAX's transformations do to compiled models, beside the same programs written in JAX."""

from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from tests.engines.xla.programs import GUARDED, NESTED, NEWTON, compiled, recurrence

from whileback.engines.xla.registry import lowerings
from whileback.errors import ArgumentError, NoGradientError

DRAW = np.random.default_rng(0)
X, W = DRAW.normal(size=(3, 4)), DRAW.normal(size=(4, 4)) * 0.7


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


RECURRENCE = compiled(recurrence("double"))


def loss(x, w, m=5):
    return RECURRENCE(x=x, w=w, m=m)["loss"]


def loss_in_jax(x, w, m=5):
    y = jax.lax.fori_loop(0, m, lambda _, y: jnp.tanh(y @ w), x)
    return jnp.sum(y * y)


def close(got, want, rtol=1e-10):
    jax.tree.map(lambda g, w: np.testing.assert_allclose(g, w, rtol, atol=1e-12), got, want)


def test_arrays_come_back_as_they_are_given():
    taken = RECURRENCE(x=X, w=W, m=5)
    assert isinstance(taken["y"], np.ndarray)
    mixed = RECURRENCE(x=jnp.array(X), w=W, m=5)
    assert isinstance(mixed["y"], jax.Array)
    close(mixed, taken)


@pytest.mark.parametrize("m", [0, 5, jnp.array(5)], ids=["0", "known", "traced"])
def test_gradients(m):
    x, w = jnp.array(X), jnp.array(W)
    want = jax.value_and_grad(loss_in_jax, (0, 1))(x, w, int(m))
    close(jax.value_and_grad(loss, (0, 1))(x, w, m), want)
    close(jax.jit(lambda x, w: jax.value_and_grad(loss, (0, 1))(x, w, m))(x, w), want)
    close(jax.grad(jax.jit(loss), (0, 1))(x, w, jnp.array(m)), want[1])


def test_gradients_of_gradients():
    def twice(function):
        return jax.grad(lambda x: jnp.sum(jax.grad(function, 1)(x, W) ** 2))

    x = jnp.array(X)
    want = twice(loss_in_jax)(x)
    close(twice(loss)(x), want)
    close(jax.jit(twice(loss))(x), want)
    close(twice(jax.jit(loss))(x), want)


def test_a_cotangent_for_every_output():
    x, w = jnp.array(X), jnp.array(W)
    got, pull = jax.vjp(lambda x, w: RECURRENCE(x=x, w=w, m=3), x, w)
    seeds = {"y": jnp.cos(got["y"]), "loss": jnp.array(2.0)}

    def scalar(x, w):
        y = jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ w), x)
        return jnp.sum(y * seeds["y"]) + 2 * jnp.sum(y * y)

    close(pull(seeds), jax.grad(scalar, (0, 1))(x, w))


def test_jacobians():
    x = jnp.array(X)
    got = jax.jacrev(lambda x: RECURRENCE(x=x, w=W, m=2)["y"])(x)
    close(got, jax.jacrev(lambda x: jnp.tanh(jnp.tanh(x @ W) @ W))(x))


@pytest.mark.parametrize("axes", [(0, 2, None), (0, None, 0)])
@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_batches(axes, wrapped):
    """Where the number of trips is one of the batch, the elements go one by one."""
    batch = 4
    arguments = [
        jnp.array(DRAW.normal(size=[*value.shape[:axis], batch, *value.shape[axis:]]))
        if axis is not None
        else jnp.array(value)
        for axis, value in zip(axes[:2], (X, W), strict=True)
    ]
    arguments.append(jnp.arange(batch) + 2 if axes[2] == 0 else jnp.array(5))
    got = wrapped(jax.vmap(jax.value_and_grad(loss, (0, 1)), axes))(*arguments)
    for element in range(batch):
        one = [
            value if axis is None else jnp.take(value, element, axis)
            for axis, value in zip(axes, arguments, strict=True)
        ]
        want = jax.value_and_grad(loss_in_jax, (0, 1))(one[0], one[1], int(one[2]))
        close(jax.tree.map(lambda leaf, index=element: leaf[index], got), want)


def test_batches_of_batches():
    x, w = jnp.array(DRAW.normal(size=(2, 3, 3, 4))), jnp.array(DRAW.normal(size=(3, 4, 4)))
    m = jnp.array([1, 4])

    def batched(function):
        return jax.vmap(jax.vmap(function, (0, 0, None)), (0, None, 0))

    want = [jax.vmap(jax.grad(loss_in_jax), (0, 0, None))(x[i], w, int(m[i])) for i in (0, 1)]
    close(batched(jax.grad(loss))(x, w, m), jnp.stack(want))


def test_a_number_of_trips_that_the_data_tells():
    root = compiled(NEWTON)

    def squares(a):
        return root(a=a, start=jnp.array(1.0))["root"]

    a = jnp.array([4.0, 9.0, 1e6, 0.5])
    for function in (jax.vmap(squares), jax.jit(jax.vmap(squares))):
        close(function(a), jnp.sqrt(a))
    for function in (jax.grad(squares), jax.jit(jax.grad(squares)), jax.grad(jax.jit(squares))):
        close(function(a[2]), 0.5 / jnp.sqrt(a[2]))
    close(jax.jit(jax.vmap(jax.grad(squares)))(a), 0.5 / jnp.sqrt(a))
    close(jax.jit(jax.grad(jax.grad(squares)))(a[0]), -0.25 * a[0] ** -1.5)


def test_a_guarded_branch_stays_guarded():
    """The other branch would run forever."""
    f = compiled(GUARDED)

    def y(x):
        return f(x=x)["y"]

    x = jnp.array([2.0, -3.0, 0.5, -0.25])
    want, slopes = jnp.where(x > 0, 3 * x, x * x), jnp.where(x > 0, 3.0, 2 * x)
    close(jax.vmap(y)(x), want)
    close(jax.jit(jax.vmap(y))(x), want)
    close(jax.vmap(jax.grad(y))(x), slopes)
    close(jax.jit(jax.vmap(jax.grad(y)))(x), slopes)


GROWTH = compiled("""growth (double x, double r, int64 m) => (double y) {
    y = Loop (m, , x) <body = trip (int64 i, bool c, double a) => (bool d, double e) {
        d = Identity(c)
        p = Mul(a, r)
        q = Sin(p)
        e = Add(a, q)
    }>
}""")
SLOPES = jax.jit(jax.grad(lambda x, r, m: GROWTH(x=x, r=r, m=m)["y"], (0, 1)))


@pytest.mark.parametrize("trips", [100, 2000, 40000, 300000])
def test_room_for_any_number_of_trips(trips):
    """For many trips, loops keep some of what they need for the gradient, and compute the rest."""

    def in_jax(x, r, m):
        return jax.lax.scan(lambda a, _: (a + jnp.sin(a * r), None), x, None, length=m)[0]

    x, r = jnp.array(0.3), jnp.array(1e-3)
    got = SLOPES(x, r, jnp.array(trips))
    close(got, jax.grad(in_jax, (0, 1))(x, r, trips), rtol=1e-7)


def nested_in_jax(x, r, m):
    def inner(b, _):
        s = jnp.sin(b * r)
        return jnp.where(s > 0, b - s * b, jnp.cos(b) + b), None

    return jax.lax.scan(inner, x, None, length=m * (m - 1) // 2)[0]


@pytest.mark.parametrize("trips", [6, 30, 90])
def test_loops_in_loops_and_branches_in_these(trips):
    """So many trips make 15, 435 and 4005 inner ones, of which each keeps something."""
    x, r = jnp.array(0.3), jnp.array(1.1)
    want = jax.grad(nested_in_jax, (0, 1))(x, r, trips)
    close(NESTED_SLOPES(x, r, jnp.array(trips)), want, 1e-7)


NESTED_LOOPS = compiled(NESTED)
NESTED_SLOPES = jax.jit(jax.grad(lambda x, r, m: NESTED_LOOPS(x=x, r=r, m=m)["y"], (0, 1)))


def test_batches_of_loops_in_loops():
    x, r, m = jnp.array([0.3, 0.9]), jnp.array([1.1, 0.7]), jnp.array([4, 6])
    got = jax.vmap(NESTED_SLOPES)(x, r, m)
    want = [jax.grad(nested_in_jax, (0, 1))(x[k], r[k], int(m[k])) for k in (0, 1)]
    close(got, jax.tree.map(lambda *each: jnp.stack(each), *want))


def test_branches_in_branches_are_traced_once(monkeypatch):
    """What is traced twice in each of nested branches would be traced 256 times in eight."""
    inner, depth, traced = "y0 = Sin(x)", 8, []
    for level in range(1, depth + 1):
        inner = f"""y{level} = If (c) <
            then_branch = t{level} () => (double y{level - 1}) {{ {inner} }},
            else_branch = e{level} () => (double z{level}) {{ z{level} = Neg(x) }}
        >"""
    f = compiled(f"deep (double x, bool c) => (double y{depth}) {{ {inner} }}")
    sine = lowerings()["", "Sin"]

    def counted(op, X):
        traced.append(op.node)
        return sine.function(op, X)

    monkeypatch.setitem(lowerings(), ("", "Sin"), replace(sine, function=counted))
    got = jax.jit(f)({"x": jnp.array(0.5), "c": jnp.array(True)})
    close(got, {f"y{depth}": jnp.sin(0.5)})
    assert len(traced) == 1


def test_too_many_rows_are_an_error():
    f = compiled("""total (double x, int64 m) => (double z) {
        y, ys = Loop (m, , x) <body = trip (int64 i, bool c, double a)
                                      => (bool d, double e, double h) {
            d = Identity(c)
            e = Identity(a)
            h = Identity(a)
        }>
        z = ReduceSum<keepdims=0>(ys)
    }""")
    call = jax.jit(lambda m: f(x=jnp.array(1.0), m=m)["z"])
    assert call(jnp.array(131072)) == 131072
    with pytest.raises(
        (ValueError, JaxRuntimeError), match="stacks 131073 rows, and there is room"
    ):
        call(jnp.array(131073)).block_until_ready()
    assert f(x=jnp.array(1.0), m=jnp.array(131073))["z"] == 131073


def test_sequences_are_arguments_without_gradients():
    f = compiled("""sums (seq(double[2]) s, double[2] x) => (double z) {
        axis = Constant<value_int=0>()
        one = Constant<value_int=1>()
        a = SequenceAt(s, one)
        p = Mul(a, x)
        z = ReduceSum<keepdims=0>(p)
    }""")
    s, x = [jnp.ones(2), jnp.array([2.0, 3.0])], jnp.array([5.0, 7.0])
    for wrapped in (lambda g: g, jax.jit):
        got = wrapped(jax.grad(lambda x, s: f(s=s, x=x)["z"]))(x, s)
        close(got, s[1])
    with pytest.raises(ArgumentError, match="wrt= names 's', which is Sequence"):
        jax.grad(lambda s: f(s=s, x=x)["z"])(s)


def test_inputs_that_are_not_differentiated():
    """Whole numbers have no gradients, and inputs with defaults only if they are given."""
    x, w = jnp.array(X), jnp.array(W)
    got = jax.grad(loss, (0, 2), allow_int=True)(x, w, jnp.array(5))
    close(got[0], jax.grad(loss_in_jax)(x, w))
    assert got[1].dtype == jax.dtypes.float0
    f = compiled("""scaled (double[2] x, double[2] k = {2.0, 3.0}) => (double z, double[2] two) {
        p = Mul(x, k)
        z = ReduceSum<keepdims=0>(p)
        two = Add(k, k)
    }""")
    x, k = jnp.array([1.0, 4.0]), jnp.array([5.0, 6.0])
    close(jax.grad(lambda x: f(x=x)["z"])(x), jnp.array([2.0, 3.0]))
    close(jax.grad(lambda x, k: f(x=x, k=k)["z"], (0, 1))(x, k), (k, x))
    close(jax.grad(lambda x: f(x=x)["two"].sum())(x), jnp.zeros(2))


def test_what_has_no_gradient_says_so_as_it_does_elsewhere():
    f = compiled("""rounded (float[4] x) => (float[4] y) {
        scale = Constant<value = float {0.5}>()
        q = QuantizeLinear(x, scale)
        y = DequantizeLinear(q, scale)
    }""")
    x = jnp.array([0.1, 0.6, 1.2, 0.4], jnp.float32)
    close(f(x=x)["y"], jnp.array([0, 0.5, 1, 0.5], jnp.float32))

    def total(x):
        return f(x=x)["y"].sum()

    for function in (jax.grad(total), jax.grad(jax.jit(total))):
        with pytest.raises(NoGradientError, match="operators that round"):
            function(x)


def test_a_part_of_a_larger_program():
    """In loops of JAX's, and where `jax.checkpoint` has it run again."""
    f = compiled("""layer (double[B,4] x, double[4,4] w) => (double[B,4] y) {
        p = MatMul(x, w)
        y = Tanh(p)
    }""")

    def deep(layer):
        layer = jax.checkpoint(layer)

        def total(x, w):
            return jnp.sum(jax.lax.scan(lambda y, _: (layer(y, w), None), x, None, length=3)[0])

        return jax.jit(jax.value_and_grad(total, (0, 1)))

    x, w = jnp.array(X), jnp.array(W)
    want = deep(lambda x, w: jnp.tanh(x @ w))(x, w)
    close(deep(lambda x, w: f(x=x, w=w)["y"])(x, w), want)


def test_random_numbers_are_the_same_forward_and_backward():
    f = compiled("""noisy (double[64] x) => (double z) {
        ratio = Constant<value = double {0.5}>()
        train = Constant<value = bool {1}>()
        y, mask = Dropout(x, ratio, train)
        z = ReduceSum<keepdims=0>(y)
    }""")
    x = jnp.array(DRAW.normal(size=64))
    for function in (lambda x: f(x=x)["z"], jax.jit(lambda x: f(x=x)["z"])):
        value, slope = jax.value_and_grad(function)(x)
        close(value, jnp.sum(slope * x))
    draws = {float(f(x=x)["z"]) for _ in range(4)}
    assert len(draws) > 1


def test_what_is_known_runs_while_jax_traces():
    """A call without traced arguments is a constant of the program around it."""
    got = jax.jit(lambda z: z + RECURRENCE(x=X, w=W, m=5)["loss"])(1.0)
    close(got, 1 + loss_in_jax(jnp.array(X), jnp.array(W)))
    got = jax.jit(lambda z: z + loss(jnp.array(X), jnp.array(W)))(1.0)
    close(got, 1 + loss_in_jax(jnp.array(X), jnp.array(W)))


def test_arguments_are_checked_while_they_are_traced():
    with pytest.raises(ArgumentError) as error:
        jax.jit(loss)(jnp.array(X, jnp.bfloat16), jnp.array(W))
    assert str(error.value) == (
        "Input 'x' is DOUBLE[B,4], but got an array of bfloat16 with shape (3, 4). "
        "Convert it with `astype('float64')`."
    )
    with pytest.raises(ArgumentError) as error:
        jax.vmap(loss, (0, None))(jnp.array(X), jnp.array(W))
    assert str(error.value).startswith("Input 'x' is DOUBLE[B,4], but got an array of float64")

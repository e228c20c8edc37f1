"""Conformance case 5: a loop that may make no trip, with a weight and a scan output."""

import numpy as np
import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

BODY = """<body = body (int64 i, bool c, float[2] v) => (bool go, float[2] u, float[2] row) {
    go = Identity(c)
    p = MatMul(W, v)
    u = Add(v, p)
    row = Identity(u)
  }>"""
BY_LIMIT = f"""(int64 n, float[2] x, float[2,2] W) => (float[2] y, float[T,2] rows) {{
  y, rows = Loop(n, , x) {BODY}
}}"""
BY_CONDITION = f"""(bool start, float[2] x, float[2,2] W) => (float[2] y, float[T,2] rows) {{
  five = Constant<value = int64 {{5}}>()
  y, rows = Loop(five, start, x) {BODY}
}}"""
X, W = [1.0, -2.0], [[0.5, 1.0], [-1.0, 0.25]]


def unrolled(trips, dy, drows):
    """v ← v + W·v by hand: dW is the sum over trips of dv·vᵀ."""
    step, values = np.eye(2) + W, [np.array(X)]
    for _ in range(trips):
        values.append(step @ values[-1])
    dv, dW = np.array(dy), np.zeros((2, 2))
    for t in reversed(range(trips)):
        dv = dv + drows[t]
        dW += np.outer(dv, values[t])
        dv = step.T @ dv
    return values[-1], np.array(values[1:]).reshape(-1, 2), dv, dW


@pytest.mark.parametrize(
    ("dy", "scale"), [([1, 1], 0), ([1, 1], 1), ([0.5, -3], 0), ([0.5, -3], 2)]
)
def test_one_file_with_and_without_trips(dy, scale):
    f = pullback(BY_LIMIT, "y rows", "x W")
    for n in (0, 2, 1, 5):
        drows = scale * np.arange(1.0, 2 * n + 1).reshape(n, 2)
        y, rows, dx, dW = unrolled(n, dy, drows)
        outputs = f(n=n, x=X, W=W, y_grad=dy, rows_grad=drows.astype(np.float32))
        assert_numbers(outputs, y=y, rows=rows, x_grad=dx, W_grad=dW)


@pytest.mark.parametrize("dy", [[1, 1], [0.5, -3]])
def test_condition_is_false_before_the_first_trip(dy):
    f = pullback(BY_CONDITION, "y rows", "x W")
    outputs = f(start=False, x=X, W=W, y_grad=dy, rows_grad=np.zeros((0, 2), np.float32))
    assert_numbers(outputs, y=X, rows=np.zeros((0, 2)), x_grad=dy, W_grad=np.zeros((2, 2)))
    y, rows, dx, dW = unrolled(5, dy, np.ones((5, 2)))
    outputs = f(start=True, x=X, W=W, y_grad=dy, rows_grad=np.ones((5, 2), np.float32))
    assert_numbers(outputs, y=y, rows=rows, x_grad=dx, W_grad=dW, atol=1e-4)


GENERAL = """(int64 n, bool start, %(v)s x, %(w)s W) => (%(v)s y, %(rows)s rows) {
  y, rows = Loop(%(limit)s, %(start)s, x) <body = body
      (int64 i, bool c, %(inner)s v) => (bool go, %(inner)s u, %(inner)s row) {
    go = Identity(c)
    p = MatMul(v, W)
    u = Tanh(p)
    row = Mul(v, p)
  }>
}"""
DIMS = {
    "static": {
        "v": "float[2,3]", "w": "float[3,3]", "rows": "float[T,2,3]", "inner": "float[2,3]"
    },
    "dynamic": {
        "v": "float[N,D]", "w": "float[D,D]", "rows": "float[T,N,D]", "inner": "float[N,D]"
    },
    "undeclared": {
        "v": "float[N,D]", "w": "float[D,D]", "rows": "float[T,N,D]", "inner": "float[]"
    },
}  # fmt: skip


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("limit", ["n", ""])
@pytest.mark.parametrize("trips", [0, 1, 4])
def test_limits_and_shapes(dims, limit, trips):
    form = {**DIMS[dims], "limit": limit or "n", "start": "start" if limit else ""}
    rng = np.random.default_rng(5)
    x, W = (rng.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 3)))
    inputs = {"n": trips, "start": True, "x": x, "W": W}
    of = ["y", "rows"] if trips or dims == "static" else ["y"]  # elsewhere, `rows` loses its rank
    assert_gradient(GENERAL % form, of, ["x", "W"], inputs, elements=16)


@pytest.mark.parametrize("dims", ["dynamic", "undeclared"])
def test_seed_on_an_empty_stack(dims):
    """The runtime shapes an empty stack (0, 0, 0), or (0,); its seed may have any sizes."""
    f = pullback(GENERAL % {**DIMS[dims], "limit": "n", "start": ""}, "y rows", "x W")
    x, W, dy = np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32), [[1, 2, 3], [4, 5, 6]]
    outputs = f(n=0, start=True, x=x, W=W, y_grad=dy, rows_grad=np.zeros((0, 2, 3), np.float32))
    assert_numbers(outputs, y=x, x_grad=dy, W_grad=np.zeros((3, 3)))


@pytest.mark.parametrize("of", [["y"], ["rows"]])
def test_only_one_result_is_differentiated(of):
    form = {**DIMS["dynamic"], "limit": "n", "start": "start"}
    for inputs in ({"n": 3, "start": True}, {"n": 3, "start": False}, {"n": 0, "start": True}):
        x, W = np.full((2, 3), 0.5, np.float32), np.eye(3, dtype=np.float32) / 2
        assert_gradient(GENERAL % form, of, ["W", "x"], {**inputs, "x": x, "W": W})


@pytest.mark.parametrize("trips", [0, 2])
def test_second_order(trips):
    form = {**DIMS["dynamic"], "limit": "n", "start": "start"}
    x, W = np.full((1, 2), 0.5, np.float32), np.float32([[0.5, 1], [-1, 0.25]])
    inputs = {"n": trips, "start": True, "x": x, "W": W}
    assert_gradient(GENERAL % form, ["y", "rows"], ["x", "W"], inputs, second_order=True)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_loop_of_no_trip_inside_a_loop(n):
    model = """(int64 n, float[2] x, float[2] w) => (float[2] y, float[T,2] rows) {
      m = Constant<value = int64 {3}>()
      y, rows = Loop(m, , x) <body = outer (int64 i, bool c, float[2] v)
          => (bool go, float[2] u, float[2] row) {
        go = Identity(c)
        u = Loop(n, , v) <body = inner (int64 j, bool d, float[2] a) => (bool on, float[2] b) {
          on = Identity(d)
          b = Mul(a, w)
        }>
        row = Mul(v, u)
      }>
    }"""
    assert_gradient(model, ["y", "rows"], ["x", "w"], {"n": n}, second_order=n < 3)


@pytest.mark.parametrize("n", [0, 2])
def test_model_that_gives_an_empty_stack_its_shape(n):
    """The runtime shapes it (0, 0); the model itself mends that before it sums the rows."""
    model = """(bool c, int64 n, float[N] x) => (float[N] y) {
      any = Constant<value = int64[1] {-1}>()
      axis = Constant<value = int64[1] {0}>()
      size = Shape(x)
      shape = Concat<axis = 0>(any, size)
      y = If(c) <
        then_branch = t () => (float[N] a) {
          last, stack = Loop(n, , x) <body = body (int64 i, bool g, float[N] v)
              => (bool go, float[N] u, float[N] row) {
            go = Identity(g)
            u = Sin(v)
            row = Mul(u, x)
          }>
          rows = Reshape(stack, shape)
          total = ReduceSum<keepdims = 0>(rows, axis)
          a = Add(total, last)
        },
        else_branch = e () => (float[N] b) { b = Identity(x) }>
    }"""
    for c in (True, False):
        assert_gradient(model, ["y"], ["x"], {"c": c, "n": n}, second_order=c)

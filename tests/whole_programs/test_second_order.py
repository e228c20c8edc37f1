"""Gradients of gradients: `gradient` and `vjp` run on their own output, control flow included."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers

from whileback.engines import compile
from whileback.gradient import gradient, vjp
from whileback.graph.scopes import walk

RNN = """(int64 n, float[%(x)s] x, float[%(d)s,%(d)s] W, float[%(d)s] b) => (float[%(x)s] y) {
  y = Loop(n, , x) <body = body (int64 i, bool c, float[%(v)s] v) => (bool go, float[%(v)s] u) {
    go = Identity(c)
    p = MatMul(v, W)
    s = Add(p, b)
    u = Tanh(s)
  }>
}"""
FORMS = {
    "static": {"x": "2,2", "d": "2", "v": "2,2"},
    "dynamic": {"x": "N,D", "d": "D", "v": "N,D"},
    "undeclared": {"x": "N,D", "d": "D", "v": ""},
    "dynamic batch": {"x": "N,2", "d": "2", "v": "N,2"},
}
AT = {"x": [[0.5, -1], [0.25, 0.75]], "W": [[0.5, 1], [-1, 0.25]], "b": [0.25, -0.5]}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_recurrent_net(form, n):
    assert_gradient(RNN % form, ["y"], ["x", "W", "b"], {"n": n, **AT}, second_order=True)


def test_the_product_of_a_weight_stays_out_of_the_loops():
    """The gradient of W is one product of stacks; so it is differentiable like any other node."""
    first = vjp(parse(RNN % FORMS["static"]), ["y"], ["W"])
    hoisted = [node for node in walk(first.graph) if node.op_type == "Gemm"]
    assert hoisted
    scans = [node for node in walk(first.graph) if node.op_type == "Scan"]
    inside = {each for scan in scans for each in walk(scan.attributes["body"].as_graph())}
    assert not inside & set(hoisted)
    assert_gradient(first, ["W_grad"], ["W", "x", "y_grad"], {"n": 3, **AT})


@pytest.mark.parametrize("T", [1, 4])
def test_recurrent_net_as_a_scan(T):
    model = """(float[T,1,2] s, float[1,2] h, float[2,2] U, float[2,2] W)
        => (float[1,2] y, float[T,1,2] all) {
      y, all = Scan(h, s) <num_scan_inputs = 1,
        body = body (float[1,2] v, float[1,2] r) => (float[1,2] u, float[1,2] row) {
          p = MatMul(v, W)
          q = MatMul(r, U)
          a = Add(p, q)
          u = Tanh(a)
          row = Mul(u, r)
        }>
    }"""
    s = np.random.default_rng(T).normal(size=(T, 1, 2)).astype(np.float32)
    assert_gradient(
        model, ["y", "all"], ["s", "h", "U", "W"], {"s": s},
        second_order=True, elements=4, directions=2,
    )  # fmt: skip


NEWTON = """(float[%(n)s] a, float[%(n)s] x0) => (float[%(n)s] x, int64 trips) {
  yes = Constant<value = bool {1}>()
  zero = Constant<value = int64 {0}>()
  one = Constant<value = int64 {1}>()
  many = Constant<value = int64 {40}>()
  half = Constant<value = float {0.5}>()
  small = Constant<value = float {%(small)s}>()
  x, trips = Loop(, yes, x0, zero) <body = body (int64 i, bool c, %(v)s v, int64 k)
      => (bool go, %(v)s u, int64 next) {
    q = Div(a, v)
    s = Add(v, q)
    u = Mul(s, half)
    next = Add(k, one)
    d = Sub(u, v)
    m = Abs(d)
    largest = ReduceMax<keepdims = 0>(m)
    large = Greater(largest, small)
    few = Less(next, many)
    go = And(large, few)
  }>
}"""


@pytest.mark.parametrize("form", [
    {"n": "2", "v": "float[2]"}, {"n": "N", "v": "float[N]"}, {"n": "N", "v": "float[]"},
], ids=["static", "dynamic", "undeclared"])  # fmt: skip
@pytest.mark.parametrize("a", [[2, 3], [5, 0.5]])
@pytest.mark.parametrize(("small", "wrt"), [("1e-3", ["a"]), ("0.3", ["a", "x0"])])
def test_newton_iteration(form, a, small, wrt):
    """√a by a while loop whose number of trips nobody knows beforehand.

    Only a loop that ends early still knows where it started. (Differences with large steps reach
    numbers without a root; there it ends after 40 trips.)
    """
    inputs = {"a": a, "x0": [1.0, 1.5]}
    assert_gradient(NEWTON % {**form, "small": small}, ["x"], wrt, inputs, second_order=True)


@pytest.mark.parametrize("a", [2.0, 50.0])
def test_newton_iteration_knows_the_derivatives_of_the_root(a):
    first = gradient(parse(NEWTON % {"n": "1", "v": "float[1]", "small": "1e-3"}), of="x", wrt="a")
    second = gradient(first, of="a_grad", wrt="a")
    outputs = compile(second)(a=[a], x0=[1.0])
    assert outputs["trips"] > 3
    assert_numbers(outputs, x=[a**0.5], a_grad=[0.5 * a**-0.5], atol=1e-5)
    np.testing.assert_allclose(outputs["a_grad_1"], [-0.25 * a**-1.5], rtol=2e-3)


NESTED = """(int64 n, int64 m, float[%(x)s] x, float[%(x)s] w) => (float[%(x)s] y) {
  y = Loop(n, , x) <body = outer (int64 i, bool c, %(v)s v) => (bool go, %(v)s u) {
    go = Identity(c)
    u = Loop(%(count)s, , v) <body = inner (int64 j, bool d, %(v)s p) => (bool on, %(v)s q) {
      on = Identity(d)
      a = Mul(p, w)
      b = Add(a, v)
      q = Sin(b)
    }>
  }>
}"""


@pytest.mark.parametrize("form", [
    {"x": "2", "v": "float[2]"}, {"x": "N", "v": "float[N]"}, {"x": "N", "v": "float[]"},
], ids=["static", "dynamic", "undeclared"])  # fmt: skip
@pytest.mark.parametrize(("count", "n", "m"), [("m", 2, 2), ("i", 3, 0), ("m", 2, 0), ("m", 0, 2)])
def test_nested_loops(form, count, n, m):
    inputs = {"n": n, "m": m, "x": [0.5, -1], "w": [0.75, 1.25]}
    model = NESTED % {**form, "count": count}
    assert_gradient(model, ["y"], ["x", "w"], inputs, second_order=True)


IF_IN_LOOP = """(bool[T] flags, float[%(x)s] x, float[%(x)s] w) => (float[%(x)s] y) {
  n = Size(flags)
  y = Loop(n, , x) <body = body (int64 i, bool c, %(v)s v) => (bool go, %(v)s u) {
    go = Identity(c)
    flag = Gather(flags, i)
    u = If(flag) <
      then_branch = t () => (%(v)s a) { b = Mul(v, w) e = Mul(b, v) a = Sin(e) },
      else_branch = e () => (%(v)s d) { f = Exp(v) g = Mul(f, w) d = Tanh(g) }>
  }>
}"""


@pytest.mark.parametrize("form", [
    {"x": "2", "v": "float[2]"}, {"x": "N", "v": "float[N]"}, {"x": "N", "v": "float[]"},
], ids=["static", "dynamic", "undeclared"])  # fmt: skip
@pytest.mark.parametrize("flags", [[1, 0, 1], [0], []])
def test_if_in_loop(form, flags):
    inputs = {"flags": np.array(flags, bool), "x": [0.5, -1], "w": [0.75, 1.25]}
    assert_gradient(IF_IN_LOOP % form, ["y"], ["x", "w"], inputs, second_order=True)


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("x", ["2", "N"])
def test_loop_in_if(c, n, x):
    model = f"""(bool c, int64 n, float[{x}] x, float[{x}] w) => (float[{x}] y) {{
      h = Sin(x)
      y = If(c) <
        then_branch = t () => (float[{x}] a) {{
          l = Loop(n, , h) <body = body (int64 i, bool g, float[{x}] v)
              => (bool go, float[{x}] u) {{
            go = Identity(g)
            p = Mul(v, w)
            q = Add(p, h)
            u = Sin(q)
          }}>
          a = Mul(l, h)
        }},
        else_branch = e () => (float[{x}] b) {{ d = Mul(h, w) b = Exp(d) }}>
    }}"""
    inputs = {"c": c, "n": n, "x": [0.5, -1], "w": [0.75, 1.25]}
    assert_gradient(model, ["y"], ["x", "w"], inputs, second_order=True)


@pytest.mark.parametrize("n", [0, 3])
def test_sizes_that_change_from_trip_to_trip(n):
    """A trip reads as many elements as there were trips: that cannot be stacked."""
    model = """(int64 n, float[4] x) => (float[4] y) {
      zero = Constant<value = int64[1] {0}>()
      one = Constant<value = int64[1] {1}>()
      y = Loop(n, , x) <body = body (int64 i, bool c, float[4] v) => (bool go, float[4] u) {
        go = Identity(c)
        last = Reshape(i, one)
        end = Add(last, one)
        a = Slice(v, zero, end)
        b = Sin(a)
        r = ReduceSum<keepdims = 0>(b)
        u = Mul(r, v)
      }>
    }"""
    inputs = {"n": n, "x": [0.5, -1, 2, 1.5]}
    assert_gradient(model, ["y"], ["x"], inputs, second_order=True)


@pytest.mark.parametrize("model", [
    RNN % FORMS["dynamic"].copy(), RNN % FORMS["static"],
], ids=["dynamic", "static"])  # fmt: skip
@pytest.mark.parametrize("n", [0, 2])
def test_third_order(model, n):
    first = vjp(parse(model), ["y"], ["W"])
    at = {"n": n, **AT, "y_grad": [[1, 0.5], [-0.25, 2]]}
    second = vjp(first, ["W_grad"], ["W"])
    seed = next(v.name for v in second.graph.inputs if (v.name or "").startswith("W_grad_grad"))
    result = str(second.graph.outputs[-1].name)
    at[seed] = [[0.5, -1], [1.5, 0.25]]
    assert_gradient(second, [result], ["W", "x", "y_grad"], at)


@pytest.mark.parametrize("x", ["2", "N"])
def test_third_order_of_nested_control_flow(x):
    model = f"""(int64 n, bool c, float[{x}] x) => (float s) {{
      y = Loop(n, , x) <body = body (int64 i, bool g, float[{x}] v) => (bool go, float[{x}] u) {{
        go = Identity(g)
        u = If(c) <
          then_branch = t () => (float[{x}] a) {{ b = Mul(v, x) a = Sin(b) }},
          else_branch = e () => (float[{x}] d) {{ d = Mul(v, v) }}>
      }}>
      s = ReduceSum<keepdims = 0>(y)
    }}"""
    for c in (True, False):
        third = parse(model)
        for of in ("s", "x_grad"):
            third = gradient(third, of=of, wrt="x", reduce="sum")
        assert_gradient(third, ["x_grad_1"], ["x"], {"n": 2, "c": c, "x": [0.5, 1.25]})

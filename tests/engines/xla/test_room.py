"""Loops that have room for some trips, though what follows may need their very number."""

import numpy as np
from tests.judge import parse

from whileback.engines import compile
from whileback.gradient import vjp

# The gradient of the inner loop is written out for each trip of the outer one, if it makes any.
SLICED = """(float[N,2] x, float[2] w, int64 m, int64 k) => (float[2] y) {
    axis = Constant<value_ints = [0]>()
    one = Constant<value_ints = [1]>()
    y = Loop (k, , w) <body = outer (int64 j, bool g, float[2] p) => (bool h, float[2] q) {
        h = Identity(g)
        z = Loop (m, , p) <body = inner (int64 i, bool c, float[2] u) => (bool d, float[2] v) {
            d = Identity(c)
            start = Unsqueeze(i, axis)
            end = Add(start, one)
            part = Slice(x, start, end, axis)
            row = Squeeze(part, axis)
            v = Mul(u, row)
        }>
        q = Sin(z)
    }>
}"""


def test_runs_that_need_the_number_of_trips_after_some_that_do_not():
    model = vjp(parse(SLICED), ["y"], ["x", "w"])
    ours, theirs = compile(model, "xla"), compile(model)
    x, w, seed = np.float32([[0.5, 1], [0.75, 0.25]]), np.float32([0.9, -1.1]), np.float32([1, 2])
    for k in (3, 2, 1, 0, 3, 0, 2):
        feeds = {"x": x, "w": w, "m": 2, "k": k, "y_grad": seed}
        want = theirs(feeds)
        for name, got in ours(feeds).items():
            np.testing.assert_allclose(got, want[name], 1e-5, 1e-6, err_msg=f"{name}, k = {k}")

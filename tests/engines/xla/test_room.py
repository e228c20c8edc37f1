"""Loops that have room for some trips, though what follows may need their very number."""

import numpy as np
from tests.judge import parse

from whileback.engines import compile
from whileback.engines.xla.model import Model
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


# All that the way back through the inner loop reads of its trips is how many there were.
COUNTED = """(float[5,2] x, float[2] w, int64 m) => (float[2] y) {
    y = Scan (w, x) <num_scan_inputs = 1, body = outer (float[2] v, float[2] row) => (float[2] u) {
        p = Loop (m, , v) <body = inner (int64 i, bool c, float[2] a) => (bool d, float[2] b) {
            d = Less(i, m)
            b = Sin(row)
        }>
        q = Mul(p, v)
        u = Tanh(q)
    }>
}"""


def test_a_number_of_trips_that_a_trip_around_reads_needs_no_program_of_its_own():
    gradient = vjp(parse(COUNTED), ["y"], ["x", "w"])
    model, theirs = Model.of("m", gradient), compile(gradient)
    x, w = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2), np.float32([0.9, -1.1])
    for m in (3, 0, 1, 40, 16):
        feeds = {"x": x, "w": w, "m": np.array(m), "y_grad": np.float32([1, 2])}
        for (name, want), got in zip(theirs(feeds).items(), model.run(feeds), strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6, err_msg=f"{name}, m = {m}")
    text = model.explain()
    assert text.count("to compile") <= 3, text
    assert "Scan[0]" not in text

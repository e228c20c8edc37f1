"""Conformance case 23: ties and overlapping windows of MaxPool: the first maximum gets it all."""

import numpy as np
import pytest
from tests.judge import assert_gradient, parse
from tests.whole_programs.right_answers import assert_numbers, pullback

from whileback.engines import compile
from whileback.gradient import vjp

POOL = "(float[%s] x) => (float[%s] y) { y = MaxPool<%s>(x) }"
TIED = POOL % ("1,1,4", "1,1,1", "kernel_shape = [4]")
OVERLAP = POOL % ("1,1,3", "1,1,2", "kernel_shape = [2], strides = [1]")


def test_first_maximum():
    f = pullback(TIED, "y", "x")
    assert_numbers(f(x=[[[1, 2, 2, 2]]], y_grad=[[[1]]]), y=[[[2]]], x_grad=[[[0, 1, 0, 0]]])
    assert_numbers(f(x=[[[1, 2, 2, 2]]], y_grad=[[[-3]]]), x_grad=[[[0, -3, 0, 0]]])


def test_overlapping_windows():
    f = pullback(OVERLAP, "y", "x")
    assert_numbers(f(x=[[[1, 3, 2]]], y_grad=[[[2, 5]]]), y=[[[3, 3]]], x_grad=[[[0, 7, 0]]])


@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_engines_agree_on_ties(engine):
    f = compile(vjp(parse(TIED), ["y"], ["x"]), engine)
    outputs = f(x=np.float32([[[1, 2, 2, 2]]]), y_grad=np.float32([[[1]]]))
    assert_numbers(outputs, x_grad=[[[0, 1, 0, 0]]])


TIES = np.random.default_rng(23).integers(0, 3, (2, 2, 5, 6)).astype(np.float32)


def by_hand(x, seed, kernel, strides, pads, dilations):
    """Hand each window's seed to its first maximum, in the order of rows."""
    dx = np.zeros(x.shape)
    for n, c, i, j in np.ndindex(seed.shape):
        top, left = i * strides[0] - pads[0], j * strides[1] - pads[1]
        steps = np.ndindex(kernel)
        places = [(top + p * dilations[0], left + q * dilations[1]) for p, q in steps]
        inside = [(p, q) for p, q in places if 0 <= p < x.shape[2] and 0 <= q < x.shape[3]]
        first = max(inside, key=lambda place: x[n, c, place[0], place[1]])
        dx[n, c, first[0], first[1]] += seed[n, c, i, j]
    return dx


@pytest.mark.parametrize(("kernel", "strides", "pads", "dilations"), [
    ((2, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((3, 2), (2, 1), (1, 0, 1, 1), (1, 1)),
    ((2, 3), (1, 2), (1, 1, 0, 1), (2, 1)),
])  # fmt: skip
def test_ties_everywhere(kernel, strides, pads, dilations):
    attributes = f"""kernel_shape = {list(kernel)}, strides = {list(strides)},
      pads = {list(pads)}, dilations = {list(dilations)}"""
    model = POOL % ("N,2,H,W", "N,2,P,Q", attributes)
    y = compile(parse(model))(x=TIES)["y"]
    seed = np.random.default_rng(1).normal(size=y.shape).astype(np.float32)
    outputs = pullback(model, "y", "x")(x=TIES, y_grad=seed)
    assert_numbers(outputs, x_grad=by_hand(TIES, seed, kernel, strides, pads, dilations))


@pytest.mark.parametrize("attributes", [
    'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"',
    "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1",
])  # fmt: skip
def test_total_of_the_seed(attributes):
    model = POOL % ("N,2,H,W", "N,2,P,Q", attributes)
    y = compile(parse(model))(x=TIES)["y"]
    seed = np.random.default_rng(1).integers(1, 9, y.shape).astype(np.float32)
    dx = pullback(model, "y", "x")(x=TIES, y_grad=seed)["x_grad"]
    assert (dx >= 0).all()
    assert dx.sum() == seed.sum()


@pytest.mark.parametrize(
    ("shape", "out", "attributes"),
    [
        ("2,1,5", "2,1,4", "kernel_shape = [2]"),
        ("N,C,H,W", "N,C,P,Q", "kernel_shape = [2, 3], strides = [2, 1], pads = [1, 1, 0, 2]"),
        ("N,C,H,W", "N,C,P,Q", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
        ("1,2,3,4,3", "1,2,2,2,2", "kernel_shape = [2, 3, 2]"),
    ],
)
def test_without_ties(shape, out, attributes):
    sizes = {"N": 2, "C": 2, "H": 5, "W": 6}
    dims = [sizes[d] if d in sizes else int(d) for d in shape.split(",")]
    count = int(np.prod(dims))
    x = np.random.default_rng(3).permutation(count).reshape(dims).astype(np.float32) / 8
    assert_gradient(POOL % (shape, out, attributes), ["y"], ["x"], {"x": x}, directions=2)

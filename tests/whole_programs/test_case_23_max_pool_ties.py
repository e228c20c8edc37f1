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


@pytest.mark.parametrize("attributes", [
    "kernel_shape = [2, 2]",
    "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]",
    "kernel_shape = [2, 2], dilations = [2, 2]",
    'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"',
    "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1",
])  # fmt: skip
def test_share_of_ties(attributes):
    """With ties everywhere: nothing negative, nothing off the maxima, and the total of the seed."""
    f = pullback(POOL % ("N,2,H,W", "N,2,P,Q", attributes), "y", "x")
    x = np.random.default_rng(23).integers(0, 3, (2, 2, 5, 6)).astype(np.float32)
    y = compile(parse(POOL % ("N,2,H,W", "N,2,P,Q", attributes)))(x=x)["y"]
    seed = np.random.default_rng(1).integers(1, 9, y.shape).astype(np.float32)
    dx = f(x=x, y_grad=seed)["x_grad"]
    assert (dx >= 0).all()
    assert dx.sum() == seed.sum()
    assert (dx[x == x.min(axis=(2, 3), keepdims=True)].sum() == 0) or (y == x.min()).any()


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

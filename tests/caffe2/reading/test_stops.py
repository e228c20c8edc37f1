"""Operators that stop or negate the gradient, differentiated as nets and as ONNX models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from whileback import compile, gradient, names
from whileback.caffe2 import Blob, NetBuilder, Workspace, add_gradient_operators, convert

# Where a gradient is zero everywhere that is said.
pytestmark = pytest.mark.filterwarnings("ignore:No value in of=")

X, W = np.float32([0.5, -1.25, 0.75]), np.float32([1.5, 0.25, -0.5])
Place = Callable[[NetBuilder, str, Blob, Blob], Blob]


def straight(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    return getattr(net, stop)(x * w) * x


def in_place(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    y = net.Tanh(x * w, out="t")
    getattr(net, stop)(y, out=y)
    return y * w


def in_a_branch(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    y = net.Copy(x, out="t")
    with net.if_(net.SumElements(x) < 10.0):
        net.Mul(getattr(net, stop)(w), x, out=y)
    with net.else_():
        net.Mul(w, x, out=y)
    return y


def in_a_loop(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    y, i = net.Copy(x, out="t"), net.constant(0, out="i")
    with net.while_():
        with net.condition():
            net.LT(i, 3)
        net.Tanh(getattr(net, stop)(y) * w + y, out=y)
        net.Add(i, 1, out=i)
    return y


def all_that_is_carried(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    y, i = net.Copy(x, out="t"), net.constant(0, out="i")
    with net.while_():
        with net.condition():
            net.LT(i, 3)
        getattr(net, stop)(net.Tanh(y + w), out=y)
        net.Add(i, 1, out=i)
    return y


def in_a_branch_of_a_loop(net: NetBuilder, stop: str, x: Blob, w: Blob) -> Blob:
    y, i = net.Copy(x, out="t"), net.constant(0, out="i")
    with net.while_():
        with net.condition():
            net.LT(i, 4)
        with net.if_(i > 1):
            net.Tanh(getattr(net, stop)(y) * w + y, out=y)
        net.Add(i, 1, out=i)
    return y


PLACES = [straight, in_place, in_a_branch, in_a_loop, all_that_is_carried, in_a_branch_of_a_loop]


@pytest.mark.parametrize("stop", ["StopGradient", "NegateGradient"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_both_ways_agree(place: Place, stop: str, tmp_path: Path) -> None:
    with NetBuilder("n") as net:
        x, w = net.input("x"), net.input("w")
        net.output(net.SumElements(place(net, stop, x, w), out="loss"))
    made, found = add_gradient_operators(net.proto(), ["loss"], wrt=["x", "w"])
    ws = Workspace()
    ws.feed("x", X)
    ws.feed("w", W)
    ws.run(made)
    onnx.save(convert(net.proto(), inputs={"x": X, "w": W}), tmp_path / "n.onnx")
    model = gradient(onnx.load(tmp_path / "n.onnx"), "loss", ["x", "w"])
    results = compile(model)({"x": X, "w": W})
    for name, gradient_name in names(model).items():
        np.testing.assert_allclose(results[gradient_name], ws.fetch(found[name]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "object", "float16"])
def test_tensors_of_any_type_are_handed_on(dtype: str) -> None:
    given = np.array([0, 1, 1], dtype) if dtype != "object" else np.array(["a", "b"], object)
    with NetBuilder("n") as net:
        net.output(net.StopGradient(net.input("x"), out="y"))
    ws = Workspace()
    ws.feed("x", given)
    ws.run(net.proto())
    assert ws.fetch("y").dtype == given.dtype
    assert ws.fetch("y").tolist() == given.tolist()

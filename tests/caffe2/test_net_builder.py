"""Nets written in Python, and what is in the way when one is written wrongly."""

from collections.abc import Callable

import numpy as np
import pytest

from whileback.caffe2 import NetBuilder, Workspace
from whileback.errors import ArgumentError


def power() -> NetBuilder:
    with NetBuilder("power") as net:
        x, n = net.input("x"), net.input("n")
        y, i = net.Copy(x, out="y"), net.constant(1, out="i")
        with net.while_():
            with net.condition():
                net.LT(i, n)
            net.Mul(y, x, out=y)
            net.Add(i, 1, out=i)
        with net.if_(n > 4):
            net.Scale(y, scale=0.5, out=y)
        with net.else_():
            net.Scale(y, scale=2.0, out=y)
        net.output(y)
    return net


@pytest.mark.parametrize(("n", "expected"), [(0, 4.0), (1, 4.0), (3, 16.0), (5, 16.0)])
def test_a_loop_and_branches_run(n: int, expected: float) -> None:
    ws = Workspace()
    ws.feed("x", np.array(2, np.float32))
    ws.feed("n", np.array(n))
    ws.run(power().proto())
    assert ws.fetch("y") == expected


def test_what_is_built() -> None:
    net = power().proto()
    assert net.name == "power"
    assert list(net.external_input) == ["x", "n"]
    assert list(net.external_output) == ["y"]
    assert [op.type for op in net.op if op.type != "CreateScope"] == [
        "Copy",
        "GivenTensorInt64Fill",
        "ConstantFill",
        "While",
        "GivenTensorInt64Fill",
        "GT",
        "If",
    ]


def test_blobs_are_values() -> None:
    with NetBuilder("n") as net:
        x, w = net.input("x"), net.input("w")
        y = -((x @ w) * 2.0 + 1.0 - x / 2.0)
        for name, blob in {"lt": y < 0.0, "le": y <= 0.0, "gt": y > 0.0, "ge": y >= 0.0}.items():
            net.Copy(blob, out=name)
        net.Copy(y, out="y")
        net.Split(y, out=["first", "second"], axis=1)
    ws = Workspace()
    x, w = np.array([[1, 2]], np.float32), np.array([[1, 0], [3, -4]], np.float32)
    ws.feed("x", x)
    ws.feed("w", w)
    ws.run(net.proto())
    y = -(x @ w * 2 + 1 - x / 2)
    np.testing.assert_array_equal(ws.fetch("y"), y)
    np.testing.assert_array_equal(ws.fetch("second"), y[:, 1:])
    for name, expected in {"lt": y < 0, "le": y <= 0, "gt": y > 0, "ge": y >= 0}.items():
        np.testing.assert_array_equal(ws.fetch(name), expected)


def test_constants() -> None:
    with NetBuilder("n") as net:
        net.constant(1.5, out="f")
        net.constant([1, 2], out="i")
        net.constant(True, out="b")
    ws = Workspace()
    ws.run(net.proto())
    assert ws.fetch("f").dtype == np.float32
    assert ws.fetch("f").shape == ()
    assert ws.fetch("i").tolist() == [1, 2]
    assert ws.fetch("i").dtype == np.int64
    assert ws.fetch("b").dtype == np.bool_


def test_a_block_that_fails_leaves_the_net_as_it_was() -> None:
    with NetBuilder("n") as net:
        x = net.input("x")
        with pytest.raises(KeyError), net.while_():
            with net.condition():
                net.LT(x, 1.0)
            net.Tanh(x, out=x)
            raise KeyError
        net.Relu(x)
    assert [op.type for op in net.proto().op] == ["Relu"]


def _no_condition(net: NetBuilder) -> None:
    with net.while_():
        net.Tanh("x", out="x")


def _late_condition(net: NetBuilder) -> None:
    with net.while_():
        net.Tanh("x", out="x")
        with net.condition():
            net.LT("x", 1.0)


def _empty_condition(net: NetBuilder) -> None:
    with net.while_(), net.condition():
        pass


def _late_else(net: NetBuilder) -> None:
    with net.if_("x"):
        net.Tanh("x", out="x")
    net.Relu("x")
    with net.else_():
        net.Tanh("x", out="x")


def _local(net: NetBuilder) -> None:
    with net.if_("x"):
        net.Tanh("x", out="h")
    net.Relu("h")


def _truth(net: NetBuilder) -> None:
    if net.Relu("x"):
        pass


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            _no_condition,
            "A loop has no condition; write 'with net.condition(): …' first in its block.",
        ),
        (
            _late_condition,
            "net.condition() stands first in the block of net.while_(), and once.",
        ),
        (
            _empty_condition,
            "The condition of a loop must end with an operator of one output, which decides "
            "whether there is another trip.",
        ),
        (_late_else, "net.else_() must follow directly after the block of net.if_()."),
        (
            _local,
            "Blob 'h' exists only in the block that made it; write its value to a blob from "
            "outside (out=…) to use it here.",
        ),
        (
            _truth,
            "Blob 'n/Relu' has no value while its net is built; branch with net.if_(blob), loop "
            "with net.while_().",
        ),
        (
            lambda net: net.Relu("y"),
            "Net 'n' has no blob 'y'; there are 1: 'x' Declare inputs with net.input(name).",
        ),
        (lambda net: net.input("x"), "Net 'n' has a blob 'x' already; choose another name."),
        (
            lambda net: NetBuilder(""),
            "name= is empty; a net needs a name, which tells it from others.",
        ),
    ],
)
def test_what_is_written_wrongly(build: Callable[[NetBuilder], object], said: str) -> None:
    with NetBuilder("n") as net:
        net.input("x")
        with pytest.raises(ArgumentError) as caught:
            build(net)
    assert str(caught.value) == said


def test_a_finished_net_takes_no_more_operators() -> None:
    with NetBuilder("n") as net:
        x = net.input("x")
    with pytest.raises(ArgumentError) as caught:
        net.Relu(x)
    assert str(caught.value) == "Net 'n' is finished; add operators inside its block."

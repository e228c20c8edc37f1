"""Nets that break the rules of the format: what is said to them, whole."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.caffe2.reading.build import arrays, do, net, op, reading

from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

GIVEN = {**arrays(x=1.0, y=2.0), "c": np.array(True), "n": np.array(2)}
SQUARE = net(op("Sqr", "a", "b"), name="square")
NAMELESS = NetDef(op=SQUARE.op)
TWICE = {"a": "x", "b": "y"}


def refusal(*ops: OperatorDef, **lists: str) -> str:
    with pytest.raises(NetDefError) as info:
        reading(net(*ops, **lists), GIVEN)
    return str(info.value)


def do_with(inputs: str, outputs: str, inner: list[str], outer: list[int]) -> OperatorDef:
    return op("Do", inputs, outputs, net=SQUARE, inner_blobs=inner, outer_blobs_idx=outer)


def onnx_while(inputs: str, outputs: str, body: NetDef, **args: int) -> OperatorDef:
    return op("ONNXWhile", inputs, outputs, body=body, **args)


BODY = net(op("Tanh", "a", "b"), name="body", inputs="i k a", outputs="k b")

REFUSED = [
    (op("If", "c", "y"), "If (writes 'y') needs the argument 'then_net', a net."),
    (op("If", "c", "y", then_net=3), "If (writes 'y'): its argument 'then_net' must hold a net."),
    (op("While", "c"), "While needs the argument 'loop_net', a net."),
    (op("If", "c", then_net=net(), else_net=3), "If: its argument 'else_net' must hold a net."),
    (op("Do", "x W", "W"), "Do (writes 'W') needs the argument 'net', a net."),
    (do("W", NAMELESS, TWICE), "Do (writes 'W'): its net must have a name. Give it one."),
    (
        do_with("x W", "y V", ["a", "b"], [0, 1]),
        "Do (writes 'y') must name its scope as its last input and as its last output, but has the "
        "inputs ['x', 'W'] and the outputs ['y', 'V'].",
    ),
    (
        do_with("x W", "y W", ["a", "b"], [0]),
        "Do (writes 'y') has 2 names in 'inner_blobs', but 1 numbers in 'outer_blobs_idx'; each "
        "name needs one.",
    ),
    (
        do_with("x W", "y W", ["a", "b"], [0, 2]),
        "Do (writes 'y') binds 'b' to blob 2 of its inputs and outputs, of which there are 2.",
    ),
    (
        do_with("x W", "y W", ["a", "b"], [0, -1]),
        "Do (writes 'y') binds 'b' to blob -1 of its inputs and outputs, of which there are 2.",
    ),
    (
        do_with("x W", "y W", ["a", "a"], [0, 1]),
        "Do (writes 'y') has 'a' twice in 'inner_blobs'. Name it once.",
    ),
    (
        do_with("x W", "x W", ["a", "b"], [0, 1]),
        "Do (writes 'x') has 'x' twice in what 'outer_blobs_idx' names. Name it once.",
    ),
    (
        do_with("x x W", "y W", ["a", "b"], [0, 2]),
        "Do (writes 'y') has 'x' twice in its inputs. Name it once.",
    ),
    (
        do_with("x W", "y W", ["a"], [0]),
        "Do (writes 'y') binds blob 'y' to no blob of its net. Name that in 'inner_blobs' and "
        "'outer_blobs_idx', or leave the blob out.",
    ),
    (
        do("W", SQUARE, TWICE, reuse_workspace=1, copy_external_blobs=1),
        "Do (writes 'W'): 'reuse_workspace' goes neither with 'copy_external_blobs' nor with a "
        "gradient operator. Remove it.",
    ),
    (
        onnx_while("n c x x", "y", BODY),
        "ONNXWhile (writes 'y') has 4 inputs and carries 2 blobs, but its body 'body' has 3 in "
        "external_input: these must be the iteration, the condition and each carried blob.",
    ),
    (
        onnx_while("n c x", "", BODY),
        "ONNXWhile has 0 outputs and carries 1 blobs, but its body 'body' has 2 in "
        "external_output: these must be the condition, each carried blob and each stacked one.",
    ),
]


@pytest.mark.parametrize(("wrong", "said"), REFUSED)
def test_control_operators_that_are_wrong(wrong: OperatorDef, said: str) -> None:
    assert refusal(op("CreateScope", "", "W"), wrong) == said


def test_what_is_wrong_in_a_net_inside() -> None:
    inner = op("If", "c", "y", then_net=net(op("While", "c")))
    assert refusal(op("If", "c", "y", then_net=net(inner))) == (
        "While needs the argument 'loop_net', a net."
    )


def test_a_net_that_reads_what_it_does_not_list() -> None:
    said = (
        "Net 'net': blob 'y' is read by Add (writes 'z'), but it is neither in external_input nor "
        "produced before. Add it to external_input."
    )
    add = op("Add", "x y", "z")
    assert refusal(add, inputs="x") == said
    assert refusal(op("If", "c", "z", then_net=net(add, inputs="x")), inputs="c") == said


def test_a_net_that_lists_an_output_that_nothing_makes() -> None:
    assert refusal(op("Sqr", "x", "z"), outputs="z q") == (
        "Net 'net' has 'q' in external_output, but no operator writes it and it is not in "
        "external_input. Take it out, or add the operator that is missing."
    )


def test_nets_in_nets() -> None:
    def nested(depth: int) -> OperatorDef:
        inner = nested(depth - 1) if depth else op("Tanh", "x", "x")
        return op("If", "c", "x", then_net=net(inner))

    start = time.monotonic()
    reading(net(nested(29)), GIVEN)
    with pytest.raises(UnsupportedError) as info:
        reading(net(nested(30)), GIVEN)
    assert str(info.value) == (
        "Net 'net' stands inside more than 30 nets; that is the limit for what can be read. "
        "Flatten the net."
    )
    assert time.monotonic() - start < 2


def test_conditions_in_conditions() -> None:
    def nested(depth: int) -> OperatorDef:
        inner = nested(depth - 1) if depth else op("Tanh", "x", "x")
        return op("While", "c", loop_net=net(), cond_net=net(inner))

    with pytest.raises(UnsupportedError) as info:
        reading(net(nested(6)), GIVEN)
    assert str(info.value) == (
        "Net 'net' stands inside more than 6 cond_nets; that is the limit for what can be read. "
        "Flatten the net."
    )

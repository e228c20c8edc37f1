"""`If`: what blobs hold after one branch or the other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.reading.build import arrays, net, op, reading, run

from whileback.errors import NetDefError, UnsupportedError

GIVEN = {**arrays(x=1.0, y=2.0, i=3), "c": np.array(True)}
OTHERWISE = {**GIVEN, "c": np.array(False)}


def test_a_blob_that_only_one_branch_writes_may_keep_what_it_holds() -> None:
    made = net(op("If", "c", "y", then_net=net(op("Tanh", "x", "y"))))
    assert run(made, GIVEN)["y"] == np.tanh(np.float32(1))
    assert run(made, OTHERWISE)["y"] == 2


def test_a_blob_that_was_never_written_is_zero_where_its_shape_is_known() -> None:
    made = net(op("If", "c", "z", then_net=net(op("Tanh", "x", "z"))))
    assert run(made, OTHERWISE)["z"] == 0


def test_a_branch_that_does_nothing() -> None:
    made = net(op("If", "c", then_net=net()), op("Tanh", "x", "z"))
    assert [node.op_type for node in reading(made, GIVEN).model.graph] == ["Tanh"]


def test_shapes_that_differ() -> None:
    made = net(
        op("If", "c", "z", then_net=net(op("ExpandDims", "x", "z", dims=[0]))),
        op("Scale", "z", "z", scale=2.0),
    )
    given = {**GIVEN, "z": np.ones((2, 2), np.float32)}
    assert run(made, given)["z"].tolist() == [2]
    assert run(made, {**given, "c": np.array(False)})["z"].tolist() == [[2, 2], [2, 2]]


BY_TURNS = op(
    "If", "c", "t", then_net=net(op("Tanh", "x", "t")), else_net=net(op("Copy", "i", "t"))
)


def test_types_that_differ_may_be_overwritten() -> None:
    made = net(BY_TURNS, op("Tanh", "y", "t"))
    assert run(made, GIVEN)["t"] == np.tanh(np.float32(2))


def test_types_that_differ_are_no_output() -> None:
    assert list(reading(net(BY_TURNS, op("Tanh", "y", "z")), GIVEN).outputs) == ["z"]
    with pytest.raises(UnsupportedError) as info:
        reading(net(BY_TURNS), GIVEN, outputs=["t"])
    assert str(info.value) == (
        "Net 'net' leaves FLOAT or INT32 in blob 't', depending on how a condition or a loop went; "
        "an output of a model has one type."
    )


def test_types_that_differ_cannot_be_read() -> None:
    with pytest.raises(UnsupportedError) as info:
        reading(net(BY_TURNS, op("Copy", "t", "z")), GIVEN)
    assert str(info.value) == (
        "Copy (writes 'z') reads blob 't', which is FLOAT or INT32, depending on how a condition "
        "or a loop before it went; ONNX has one type for each value. Use another name for one of "
        "them."
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("i", "needs a BOOL as its condition, but 'i' is INT32[]. Compare it, or cast it to bool."),
        ("many", "needs one element in its condition 'many', which is BOOL[2]."),
        ("none", "needs one element in its condition 'none', which is BOOL[0]."),
    ],
)
def test_conditions_that_are_none(name: str, said: str) -> None:
    given = {**GIVEN, "many": np.array([True, True]), "none": np.zeros(0, bool)}
    with pytest.raises(NetDefError) as info:
        reading(net(op("If", name, "z", then_net=net(op("Tanh", "x", "z")))), given)
    assert str(info.value) == f"If (writes 'z') {said}"


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_conditions_of_any_rank(shape: tuple[int, ...]) -> None:
    made = net(op("If", "c", "y", then_net=net(op("Tanh", "x", "y"))))
    for truth, expected in ((True, np.tanh(np.float32(1))), (False, 2)):
        assert run(made, {**GIVEN, "c": np.full(shape, truth)})["y"] == expected

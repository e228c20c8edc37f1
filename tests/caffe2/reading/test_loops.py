"""`While` and `ONNXWhile`: what they carry from trip to trip, and how often they run."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.reading.build import arrays, net, op, reading, run

from whileback.caffe2.reading import TensorSpec
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

GIVEN = {**arrays(x=0.5, y=2.0, w=3.0, i=0, one=1, T=3), "k": np.array(True)}
COUNT = net(op("Add", "i one", "i"), op("LE", "i T", "k"))


def loop(*ops: OperatorDef, cond_net: NetDef = COUNT) -> OperatorDef:
    return op("While", "k", loop_net=net(*ops), cond_net=cond_net)


def carried(made: NetDef, **options: object) -> list[str | None]:
    """What the only loop of a net carries."""
    graph = reading(made, GIVEN, **options).model.graph
    (node,) = (node for node in graph if node.op_type == "Loop")
    return [value.name for value in node.attributes["body"].as_graph().inputs[2:]]


def test_a_loop_carries_what_trips_change() -> None:
    made = net(loop(op("Mul", "x w", "t"), op("Tanh", "t", "x")))
    assert carried(made, outputs=["x"]) == ["i_2", "x_1"]


def test_a_temporary_is_carried_only_if_it_is_read_after_the_loop() -> None:
    made = net(loop(op("Mul", "x w", "t"), op("Tanh", "t", "x")))
    assert carried(made, outputs=["x", "t"]) == ["i_2", "x_1", "t_2"]
    assert run(made, GIVEN, outputs=["t"])["t"] > 0


def test_a_counter_that_nothing_reads_is_not_carried() -> None:
    made = net(loop(op("Tanh", "x", "x"), op("Add", "y w", "y")))
    assert carried(made, outputs=["x"]) == ["i_2", "x_1"]


def test_a_loop_of_no_trip_leaves_what_was_there() -> None:
    made = net(loop(op("Tanh", "x", "x"), op("Tanh", "x", "z")))
    result = run(made, {**GIVEN, "T": np.int32(0)})
    assert (result["x"], result["z"], result["i"]) == (0.5, 0, 1)


def test_what_a_trip_reads_and_then_resets() -> None:
    made = net(
        op("StopGradient", "w", "z"),
        loop(op("Add", "x z", "x"), op("StopGradient", "w", "z")),
    )
    assert run(made, {**GIVEN, "z": np.float32(0)})["x"] == 9.5


def test_a_shape_that_trips_change() -> None:
    made = net(
        loop(op("Concat", "x y", "xy sizes", axis=0), op("Copy", "xy", "x")),
        op("Scale", "x", "z", scale=2.0),
    )
    given = {**GIVEN, "x": np.zeros((1, 2), np.float32), "y": np.ones((1, 2), np.float32)}
    found = reading(made, given, outputs=["z"])
    (value,) = found.model.graph.outputs
    assert value.shape is not None
    assert value.shape[1] == 2
    assert run(made, given)["z"].tolist() == [[0, 0], [2, 2], [2, 2], [2, 2]]


def test_a_rank_that_trips_change() -> None:
    made = net(loop(op("ExpandDims", "x", "x", dims=[0])), op("Scale", "x", "z", scale=2.0))
    assert run(made, GIVEN)["z"].tolist() == [[[1.0]]]


def test_a_type_that_trips_change() -> None:
    made = net(loop(op("Tanh", "x", "t"), op("Copy", "i", "t")), op("Copy", "t", "z"))
    with pytest.raises(UnsupportedError) as info:
        reading(made, {**GIVEN, "t": np.float32(0)})
    assert "reads blob 't', which is FLOAT or INT32" in str(info.value)
    assert run(net(*made.op[:1]), {**GIVEN, "t": np.float32(0)})["i"] == 4


def test_a_symbol_stays_a_symbol() -> None:
    made = net(loop(op("Tanh", "x", "x")))
    given = {**GIVEN, "x": TensorSpec(ir.DataType.FLOAT, ["N", 2])}
    found = reading(made, given, outputs=["x"])
    assert found.model.graph.outputs[0].shape == ir.Shape(["N", 2])


def test_the_condition_before_the_first_trip_decides_nothing_beside_a_cond_net() -> None:
    made = net(loop(op("Tanh", "x", "x")))
    for start in (np.array(False), np.array(7, np.int32)):
        assert run(made, {**GIVEN, "k": start})["i"] == 4


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (np.array([True, True]), "needs one element in its condition 'k', which is BOOL[2]."),
        (
            np.float32(1),
            "needs a BOOL as its condition, but 'k' is FLOAT[]. Compare it, or cast it to bool.",
        ),
    ],
)
def test_conditions_that_are_none(condition: np.ndarray, said: str) -> None:
    with pytest.raises(NetDefError) as info:
        reading(net(op("While", "k", loop_net=net())), {**GIVEN, "k": condition})
    assert str(info.value) == f"While {said}"


def test_a_condition_that_nothing_writes() -> None:
    with pytest.raises(NetDefError) as info:
        reading(net(op("While", "q", loop_net=net())), GIVEN)
    assert str(info.value) == (
        "While reads blob 'q', which is no input of the net and which no operator before it "
        "writes. Give it as an input, or correct the order."
    )


def onnx_while(*ops: OperatorDef, lists: tuple[str, str], outputs: str, **args: int) -> NetDef:
    body = net(*ops, name="body", inputs=lists[0], outputs=lists[1])
    return net(op("ONNXWhile", "M k x y", outputs, body=body, **args))


COUNTED = {**GIVEN, "M": np.int64(3), "x": np.ones((2, 1), np.float32)}
TANH = (op("Scale", "a", "b", scale=2.0), op("Copy", "k", "go"))


def test_rows_of_any_shape_are_stacked() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go b c b"), outputs="xs ys rows", has_trip_count=1)
    result = run(made, COUNTED)
    assert result["xs"].tolist() == [[8], [8]]
    assert result["rows"].tolist() == [[[2], [2]], [[4], [4]], [[8], [8]]]


def test_rows_of_unknown_rank_are_not_stacked() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go b c b"), outputs="xs ys rows", has_trip_count=1)
    with pytest.raises(NetDefError) as info:
        reading(made, {**COUNTED, "x": TensorSpec(ir.DataType.FLOAT, None)})
    assert str(info.value) == (
        "ONNXWhile (writes 'xs') needs the rank of what it stacks in blob 'rows', which is not "
        "known. Give the shapes of the net's inputs."
    )


def test_the_number_of_the_trip() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go b c n"), outputs="xs ys ns", has_trip_count=1)
    assert run(made, COUNTED)["ns"].tolist() == [0, 1, 2]


def test_a_condition_that_is_not_looked_at() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go b c"), outputs="xs ys", has_trip_count=1)
    assert run(made, {**COUNTED, "k": np.array(False)})["xs"].tolist() == [[8], [8]]
    made.op[0].arg.add(name="has_cond", i=1)
    assert run(made, {**COUNTED, "k": np.array(False)})["xs"].tolist() == [[1], [1]]


def test_blobs_are_copied_to_the_next_trip_one_after_the_other() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go c a"), outputs="xs ys", has_trip_count=1)
    result = run(made, {**COUNTED, "x": np.float32(1)})
    assert (result["xs"], result["ys"]) == (2, 2)


def test_a_body_without_a_workspace_of_its_own() -> None:
    made = onnx_while(
        op("Add", "a w", "b"),
        op("Copy", "k", "go"),
        lists=("n k a c w", "go b c"),
        outputs="xs ys",
        has_trip_count=1,
        disable_scopes=1,
    )
    result = run(made, COUNTED)
    assert result["b"].tolist() == result["xs"].tolist() == [[10], [10]]
    assert result["n"] == 3


def test_a_trip_count_of_another_type() -> None:
    made = onnx_while(*TANH, lists=("n k a c", "go b c"), outputs="xs ys", has_trip_count=1)
    with pytest.raises(NetDefError) as info:
        reading(made, {**COUNTED, "M": np.int32(3)})
    assert str(info.value) == (
        "ONNXWhile (writes 'xs') needs INT64 as its trip count, but 'M' is INT32[]."
    )

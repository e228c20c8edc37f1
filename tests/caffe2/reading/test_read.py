"""The model that a net is read as: its inputs, its outputs, and what they are called."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.reading.build import arrays, net, op, reading, run

from whileback.caffe2.reading import Reading, TensorSpec
from whileback.errors import ArgumentError, NetDefError, UnsupportedError
from whileback.graph.scopes import definitions, walk_graphs

GIVEN = arrays(x=1.0, y=2.0)


def inputs(found: Reading) -> list[str | None]:
    return [value.name for value in found.model.graph.inputs]


def outputs(found: Reading) -> list[str | None]:
    return [value.name for value in found.model.graph.outputs]


def test_blobs_that_are_written_once_keep_their_names() -> None:
    found = reading(net(op("Tanh", "x", "t"), op("Add", "t y", "z")), GIVEN)
    assert found.outputs == {"t": "t", "z": "z"}
    assert outputs(found) == ["t", "z"]


def test_versions_of_a_blob_are_numbered() -> None:
    made = net(op("Tanh", "x", "b"), op("Add", "b y", "b"), op("Mul", "b b", "b"))
    found = reading(made, GIVEN)
    assert found.outputs == {"b": "b"}
    names = [value.name for node in found.model.graph for value in node.outputs]
    assert names == ["b@1", "b@2", "b"]


def test_an_input_that_is_overwritten_keeps_its_name() -> None:
    found = reading(net(op("Tanh", "x", "x"), op("Tanh", "x", "x")), GIVEN)
    assert (inputs(found), outputs(found)) == (["x"], ["x@2"])
    assert found.outputs == {"x": "x@2"}


def test_the_model_knows_the_last_version_of_each_blob() -> None:
    found = reading(net(op("Tanh", "x", "x"), op("Add", "x y", "z")), GIVEN, outputs=["z"])
    assert json.loads(found.model.metadata_props["whileback.blobs"]) == {
        "x": "x@1",
        "y": "y",
        "z": "z",
    }


def test_names_of_blobs_are_given_to_nothing_else() -> None:
    taken = "constant z/Mul z@1 body trip"
    ops = [op("Tanh", "x", name) for name in taken.split()]
    made = net(*ops, op("Scale", "x", "z", scale=3.0), op("Scale", "z", "z", scale=3.0))
    found = reading(made, GIVEN)
    assert found.outputs == {name: name for name in [*taken.split(), "z"]}
    graphs = list(walk_graphs(found.model.graph))
    names = [value.name for graph in graphs for value in definitions(graph)]
    assert len(names) == len(set(names))


def test_a_blob_that_two_names_stand_for_has_two_values() -> None:
    result = run(net(op("StopGradient", "x", "a"), op("StopGradient", "x", "b")), GIVEN)
    assert {name: each.item() for name, each in result.items()} == {"a": 1.0, "b": 1.0}


def test_an_output_may_be_an_input() -> None:
    found = reading(net(op("Tanh", "x", "z")), GIVEN, outputs=["x", "z"])
    assert (inputs(found), outputs(found)) == (["x"], ["x@1", "z"])


def test_inputs_that_are_not_read_are_left_out() -> None:
    made = net(op("Tanh", "x", "z"))
    assert inputs(reading(made, GIVEN)) == ["x"]
    assert inputs(reading(made, GIVEN, keep_unused_inputs=True)) == ["x", "y"]


def test_outputs_are_what_the_net_lists() -> None:
    ops = [op("Tanh", "x", "t"), op("CreateScope", "", "W"), op("Tanh", "t", "z")]
    assert outputs(reading(net(*ops, outputs="z W"), GIVEN)) == ["z"]
    assert outputs(reading(net(*ops), GIVEN)) == ["t", "z"]


def test_outputs_are_what_nets_inside_write() -> None:
    made = net(op("If", "c", then_net=net(op("Tanh", "x", "z")), else_net=net()))
    given = {**GIVEN, "c": np.array(True), "z": np.float32(3)}
    assert run(made, given)["z"] == np.tanh(np.float32(1))


@pytest.mark.parametrize("name", ["W", "q"])
def test_an_output_that_holds_no_tensor(name: str) -> None:
    with pytest.raises(ArgumentError) as info:
        reading(net(op("CreateScope", "", "W"), op("Tanh", "x", "z")), GIVEN, outputs=[name])
    assert str(info.value) == (f"Net 'net' leaves no tensor in blob '{name}'; there are 1: 'z'")


def test_constants_are_initializers() -> None:
    made = net(op("Add", "x y", "z"))
    found = reading(made, {"x": GIVEN["x"]}, constants={"y": GIVEN["y"]})
    assert inputs(found) == ["x"]
    assert list(found.model.graph.initializers) == ["y"]


def test_operators_that_cannot_be_read_are_all_named() -> None:
    inner = net(op("Frobnicate", "x", "a"), op("Quux", "x", "b"))
    with pytest.raises(UnsupportedError) as info:
        reading(net(op("Quux", "x", "b"), op("If", "c", then_net=inner)), GIVEN)
    assert str(info.value) == (
        "Net 'net' has 3 operators of 2 types that cannot be read: Frobnicate (1), Quux (2)."
    )


def test_a_blob_that_nothing_writes() -> None:
    with pytest.raises(NetDefError) as info:
        reading(net(op("Tanh", "q", "z")), GIVEN)
    assert str(info.value) == (
        "Tanh (writes 'z') reads blob 'q', which is no input of the net and which no operator "
        "before it writes. Give it as an input, or correct the order."
    )


def test_what_does_not_fit_tells_how_to_say_what_inputs_are() -> None:
    made = net(op("LT", "i n", "c"))
    given = {"i": np.array(0), "n": np.float32(3)}
    with pytest.raises(NetDefError) as info:
        reading(made, given)
    assert str(info.value) == (
        "LT (writes 'c') cannot be computed with the inputs 'i' INT64[], 'n' FLOAT[] and the "
        "arguments none: they do not fit each other (ONNX's Less: reads 'n', which is "
        "tensor(float), as 'B' beside 'i', which is tensor(int64): they must have one type). "
        "Correct them, or say what the net's inputs are, which count as FLOAT of unknown shape "
        "otherwise: `--input NAME=INT64:2,3` on the command line, `inputs=` in Python."
    )
    assert run(made, {**given, "n": np.array(3)})["c"]


def test_a_scope_is_no_tensor() -> None:
    with pytest.raises(NetDefError) as info:
        reading(net(op("CreateScope", "", "W"), op("Tanh", "W", "z")), GIVEN)
    assert str(info.value) == ("Tanh (writes 'z') reads blob 'W', which holds a scope, no tensor.")


def test_sizes_may_be_symbols_or_unknown() -> None:
    made = net(op("Tanh", "x", "z"))
    for shape in (["N", 3], None):
        found = reading(made, {"x": TensorSpec(ir.DataType.FLOAT, shape)})
        value = found.model.graph.outputs[0]
        assert value.shape == (None if shape is None else ir.Shape(shape))

"""From files as the real Caffe2 exports them to ONNX models."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from whileback import compile
from whileback.caffe2.convert import convert, initial_blobs
from whileback.errors import ArgumentError, UnsupportedError
from whileback.formats.caffe2 import load, load_blobs
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

DATA = Path(__file__).parent.parent / "formats" / "caffe2" / "data"
NET, INIT, PREDICTOR = DATA / "predict_net.pb", DATA / "init_net.pb", DATA / "predictor.minidb"
WEIGHTS = ["fc1_w", "fc1_b", "out_w", "out_b"]


def assert_as_recorded(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["data"]
    assert [tensor.name for tensor in model.graph.initializer] == WEIGHTS
    with np.load(DATA / "io.npz") as recorded:
        result = compile(model)(data=recorded["data"])
        assert list(result) == ["sm"]
        np.testing.assert_allclose(result["sm"], recorded["sm"], rtol=1e-6)


def test_a_net_with_its_init_net() -> None:
    assert_as_recorded(convert(NET, INIT, inputs={"data": ("N", 4)}))


def test_a_predictor_export() -> None:
    assert_as_recorded(convert(PREDICTOR, inputs={"data": ("N", 4)}))


def test_a_predictor_export_knows_its_inputs() -> None:
    model = convert(PREDICTOR)
    assert [value.name for value in model.graph.input] == ["data"]


def test_arrays_as_init() -> None:
    weights = {name: initial_blobs(INIT)[name] for name in WEIGHTS}
    assert_as_recorded(convert(load(NET), weights, inputs={"data": np.zeros((2, 4), np.float32)}))


def test_several_inits() -> None:
    first, second = load(INIT), load(INIT)
    del first.op[2:]
    del second.op[:2]
    assert_as_recorded(convert(NET, [first, second], inputs={"data": (2, 4)}))


def test_an_init_net_that_must_be_run() -> None:
    net = NetDef(name="init", op=[OperatorDef(type="GivenTensorFill", output=["x"])])
    net.op[0].arg.add(name="values", floats=[-2.0])
    net.op[0].arg.add(name="shape", ints=[1])
    net.op.add(type="Relu", input=["x"], output=["y"])
    assert {name: array.tolist() for name, array in initial_blobs(net).items()} == {
        "x": [-2.0],
        "y": [0.0],
    }


def test_a_file_of_blobs_as_init() -> None:
    file = DATA / "blobs.minidb"
    assert initial_blobs(file).keys() == load_blobs(file).keys()


def test_what_is_in_the_way_is_said_whole() -> None:
    with pytest.raises(ArgumentError) as caught:
        convert(NET, INIT)
    assert str(caught.value) == (
        "Net 'mlp' would have no input: its init fills all that it reads, 'data', 'fc1_w', "
        "'fc1_b', 'out_w', 'out_b'. Name its inputs, with their shapes: "
        "inputs={'data': (1, 3, 224, 224)} (--input data=1,3,224,224)."
    )
    with pytest.raises(ArgumentError) as caught:
        convert(NET, INIT, inputs={"date": (1, 4)})
    assert str(caught.value) == "Net 'mlp' reads no blob 'date'; did you mean 'data'?"


def test_all_operators_that_cannot_be_read_are_listed() -> None:
    """Conformance case S1."""
    types = ["Relu", "NoSuch", "Other", "NoSuch", "Nested"]
    net = NetDef(name="n", op=[OperatorDef(type=t, input=["x"], output=["x"]) for t in types])
    inner = NetDef(name="inner", op=[OperatorDef(type="NoSuch", output=["y"])])
    net.op.add(type="If", input=["c"]).arg.add(name="then_net", n=inner)
    with pytest.raises(UnsupportedError) as caught:
        convert(net)
    assert str(caught.value) == (
        "Net 'n' has 5 operators of 3 types that cannot be read: Nested (1), NoSuch (3), Other (1)."
    )


@pytest.mark.parametrize("strings", [["a", "é"], [b"a", "é".encode()]])
def test_strings_among_the_weights(strings: list[str]) -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Copy", input=["s"], output=["y"])])
    net.op.add(type="Relu", input=["x"], output=["z"])
    model = convert(net, {"s": np.array(strings, object)}, inputs={"x": (1,)})
    onnx.checker.check_model(model, full_check=True)
    assert compile(model)(x=[1])["y"].tolist() == ["a", "é"]

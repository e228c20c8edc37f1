"""Files as the real Caffe2 wrote them, and files that are damaged."""

import time
from pathlib import Path

import numpy as np
import pytest

from whileback.errors import FormatError, NetDefError
from whileback.formats import caffe2
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

DATA = Path(__file__).parent / "data"
PREDICT = DATA / "predict_net.pb"

ARRAYS = {
    "b": np.array([True, False]),
    "d": np.array([1.5]),
    "h": np.array([1, 2.5], np.float16),
    "i8": np.array([1, -2], np.int8),
    "i16": np.array([1, -2], np.int16),
    "i32": np.array([7], np.int32),
    "i64": np.array([1 << 40]),
    "u8": np.array([1, 255], np.uint8),
    "u16": np.array([1, 65535], np.uint16),
    "s": np.array([b"ab", b"c\xff"], object),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_blob_of_each_type(name: str) -> None:
    blobs = caffe2.load_blobs(DATA / f"blob_{name}.pb")
    assert list(blobs) == [name]
    assert blobs[name].dtype == ARRAYS[name].dtype
    np.testing.assert_array_equal(blobs[name], ARRAYS[name])


def test_the_blobs_of_a_minidb() -> None:
    blobs = caffe2.load_blobs(DATA / "blobs.minidb")
    np.testing.assert_array_equal(blobs["s"], ARRAYS["s"])
    np.testing.assert_array_equal(blobs["h"], ARRAYS["h"])
    assert blobs["data"].shape == (2, 4)


def test_a_predictor_export() -> None:
    predictor = caffe2.load_predictor(DATA / "predictor.minidb")
    assert [op.type for op in predictor.net.op] == ["FC", "Relu", "FC", "Softmax"]
    assert predictor.inputs == ["data"]
    assert predictor.outputs == ["sm"]
    assert {name: blob.shape for name, blob in predictor.blobs.items()} == {
        "fc1_w": (3, 4),
        "fc1_b": (3,),
        "out_w": (2, 3),
        "out_b": (2,),
    }
    assert [net.name for net in predictor.init_nets] == ["global-init", "predict-init"]
    assert caffe2.load(DATA / "predictor.minidb") == predictor.net


@pytest.mark.parametrize("name", ["net.pb", "net.pbtxt", "net.prototxt"])
def test_a_net_is_written_and_read(tmp_path: Path, name: str) -> None:
    net = caffe2.load(PREDICT)
    caffe2.save(net, tmp_path / name)
    assert caffe2.load(tmp_path / name) == net


def test_unknown_fields_survive(tmp_path: Path) -> None:
    unknown = b"\xfa\x3f\x03new"  # field 1023, three bytes
    op = OperatorDef(type="Relu").SerializeToString() + unknown
    data = b"\x12" + bytes([len(op)]) + op + unknown
    (tmp_path / "net.pb").write_bytes(data)
    caffe2.save(caffe2.load(tmp_path / "net.pb"), tmp_path / "again.pb")
    assert (tmp_path / "again.pb").read_bytes() == data


def test_an_existing_file_is_not_replaced_unasked(tmp_path: Path) -> None:
    net = caffe2.load(PREDICT)
    caffe2.save(net, tmp_path / "net.pb")
    with pytest.raises(FormatError, match="exists; choose another name"):
        caffe2.save(net, tmp_path / "net.pb")
    caffe2.save(net, tmp_path / "net.pb", overwrite=True)


def test_what_is_caffe2s(tmp_path: Path) -> None:
    onnx = tmp_path / "onnx.pb"
    onnx.write_bytes(b"\x08\x0a")
    assert caffe2.is_caffe2(PREDICT)
    assert caffe2.is_caffe2("missing.pbtxt")
    assert not caffe2.is_caffe2(onnx)
    assert not caffe2.is_caffe2("model.onnx")


def damaged(tmp_path: Path, name: str, data: bytes) -> str:
    path = tmp_path / name
    path.write_bytes(data)
    start = time.perf_counter()
    with pytest.raises(NetDefError) as caught:
        caffe2.load(path)
    assert time.perf_counter() - start < 1
    return str(caught.value).replace(str(path), "FILE")


def test_a_truncated_net(tmp_path: Path) -> None:
    said = damaged(tmp_path, "net.pb", PREDICT.read_bytes()[:-5])
    assert said.startswith(
        "'FILE': holds no NetDef, or is damaged, truncated or nested too deep (Protobuf says: "
    )
    assert said.endswith("); text form is read from .pbtxt and .prototxt")


def test_every_truncation_is_an_error_or_a_shorter_net(tmp_path: Path) -> None:
    data = PREDICT.read_bytes()
    for end in range(1, len(data)):
        (tmp_path / "net.pb").write_bytes(data[:end])
        try:
            net = caffe2.load(tmp_path / "net.pb")
        except NetDefError:
            continue
        assert len(net.op) <= 4


def test_a_net_without_operators(tmp_path: Path) -> None:
    said = damaged(tmp_path, "net.pb", NetDef(name="n").SerializeToString())
    assert said == "'FILE': holds no operator; it is no net, or of another format"


def test_text_that_is_no_net(tmp_path: Path) -> None:
    said = damaged(tmp_path, "net.pbtxt", b'op { type: "Relu" inptu: "x" }')
    assert said.startswith("'FILE': is no NetDef in text form: 1:19 : ")
    assert damaged(tmp_path, "net.pbtxt", b"\xff\xfe") == (
        "'FILE': is no text; name a binary file .pb"
    )


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        for tag in (b"\x42", b"\x2a", b"\x12"):  # Argument.n, OperatorDef.arg, NetDef.op
            data = tag + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number % 128 + 128])
        number //= 128
    return data + bytes([number])


def test_nets_nested_without_end(tmp_path: Path) -> None:
    assert "nested too deep" in damaged(tmp_path, "net.pb", nested(5000))
    text = b'op { arg { name: "n" n { ' * 5000 + b"} } }" * 5000
    assert "too deep" in damaged(tmp_path, "net.pbtxt", text)


def test_a_truncated_minidb(tmp_path: Path) -> None:
    data = (DATA / "predictor.minidb").read_bytes()
    said = damaged(tmp_path, "model.minidb", data[:-3])
    assert said == (
        "'FILE': is no minidb, or truncated: its record at byte 1134 goes beyond the end"
    )


def test_a_minidb_without_a_net(tmp_path: Path) -> None:
    said = damaged(tmp_path, "model.minidb", (DATA / "blobs.minidb").read_bytes())
    assert said == (
        "'FILE': has no record '!!META_NET_DEF', so it is no predictor export; blobs alone are "
        "read as an init net"
    )


@pytest.mark.parametrize(
    ("text", "field", "kind"),
    [
        (b"nnnn", "name", "NetDef"),
        (b"Relu", "type", "OperatorDef"),
        (b"xxxx", "input", "OperatorDef"),
        (b"yyyy", "output", "OperatorDef"),
        (b"aaaa", "name", "Argument"),
    ],
)
def test_names_that_are_no_text(text: bytes, field: str, kind: str, tmp_path: Path) -> None:
    net = NetDef(name="nnnn", op=[OperatorDef(type="Relu", input=["xxxx"], output=["yyyy"])])
    net.op[0].arg.add(name="aaaa", s=b"\xff")
    data = net.SerializeToString().replace(text, b"\xd0\xffab")
    assert damaged(tmp_path, "net.pb", data) == (
        f"'FILE': is damaged: the '{field}' of a {kind} is b'\\xd0\\xffab', which is no UTF-8"
    )


def test_blobs_whose_name_is_no_text(tmp_path: Path) -> None:
    data = (DATA / "blob_i32.pb").read_bytes().replace(b"i32", b"\xff\xff\xff")
    (tmp_path / "blob.pb").write_bytes(data)
    with pytest.raises(NetDefError, match="holds no tensors"):
        caffe2.load_blobs(tmp_path / "blob.pb")


def test_a_long_line_of_a_text_is_not_repeated_whole(tmp_path: Path) -> None:
    said = damaged(tmp_path, "net.pbtxt", b"name: " + b"[" * 20000)
    assert said.startswith("'FILE': is no NetDef in text form: 1:7 : 'name: [[[")
    assert said.endswith("[[ …") and len(said) < 500

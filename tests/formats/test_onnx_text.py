"""The text form: mistakes named by line and column, and nothing lost unnoticed."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from whileback.errors import FormatError
from whileback.formats import load, onnx_text

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1.5, -2}> {
   y = Mul(x, w)
}"""


WITH_BODY = """<ir_version: 8, opset_import: ["" : 17]>
g (bool c) => (float[2] y) {
   y = If(c) <then_branch = t () => (float[2] p) <float[2] v = {3, 4}> {
      p = Constant <value = float[2] {1, 2}> ()
   }, else_branch = e () => (float[2] q) { q = Constant <value = float[2] {5, 6}> () }>
}"""


def refusal(text: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        onnx_text.parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("m.onnx.txt", True), ("m.onnxtxt", True), ("m.TXT", True), ("m.onnx", False), ("m", False)],
)
def test_is_text(name: str, expected: bool) -> None:
    assert onnx_text.is_text(Path(name)) is expected


def test_text_is_parsed() -> None:
    proto = onnx_text.parse(MODEL.encode())
    assert [node.op_type for node in proto.graph.node] == ["Mul"]
    assert list(proto.graph.initializer[0].float_data) == [1.5, -2.0]


def test_a_mistake_is_named_by_line_and_column() -> None:
    assert refusal(MODEL.replace("w)", "w").encode()) == (
        "line 4, column 1: Expected character ) not found; correct the text"
    )


def test_bytes_that_are_no_text() -> None:
    assert refusal(b"\x08\x0a\xff") == (
        "byte 2 is not UTF-8, so this is no text; name a binary model .onnx"
    )


@pytest.mark.parametrize("depth", [101, 100_000])
def test_brackets_too_deep_for_the_parser(depth: int) -> None:
    type_ = "seq(" * depth + "float" + ")" * depth
    assert refusal(MODEL.replace("float[2] x", f"{type_} x").encode()) == (
        "brackets are nested more than 100 deep; move inner bodies outwards"
    )


def test_nesting_too_deep_for_protobuf() -> None:
    type_ = "seq(" * 95 + "float" + ")" * 95
    assert refusal(MODEL.replace("float[2] x", f"{type_} x").encode()) == (
        "is nested too deep to be read; move inner bodies outwards"
    )


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    text = MODEL.replace("w)", "w) # " + "(" * 200).replace(
        "y = Mul", 'y = Mul <note = "' + "[" * 200 + '\\"(">'
    )
    assert onnx_text.parse(text.encode()).graph.node[0].attribute[0].s.endswith(b'"(')


def test_values_come_back_exactly() -> None:
    rng = np.random.default_rng(7)
    proto = onnx_text.parse(MODEL.encode())
    arrays = {
        "f": rng.standard_normal(50).astype(np.float32),
        "d": np.array([1 / 3, np.inf, -0.0, 5e-324]),
        "h": np.array([1 / 3], np.float16),
        "b": np.array([True, False]),
        "empty": np.zeros((0, 2), np.float32),
    }
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    proto.graph.initializer.append(onnx.helper.make_tensor("s", 8, [1], ['say "w"']))
    read = {t.name: t for t in onnx_text.parse(onnx_text.to_text(proto).encode()).graph.initializer}
    for name, array in arrays.items():
        back = onnx.numpy_helper.to_array(read[name])
        assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
    assert list(read["s"].string_data) == [b'say "w"']


def test_a_tensor_that_text_cannot_hold() -> None:
    proto = onnx_text.parse(MODEL.encode())
    proto.graph.initializer.append(onnx.helper.make_tensor("i", onnx.TensorProto.INT4, [2], [1, 2]))
    with pytest.raises(FormatError) as caught:
        onnx_text.to_text(proto)
    assert str(caught.value) == (
        "onnx prints this model as text that it cannot read back, as with INT4 data or external "
        "data in attributes; write .onnx"
    )


def test_names_of_tensors_in_attributes_are_left_out() -> None:
    proto = onnx_text.parse(WITH_BODY.encode())
    branch = proto.graph.node[0].attribute[0].g
    branch.node[0].attribute[0].t.name = "stft.basis"
    again = onnx_text.parse(onnx_text.to_text(proto).encode())
    tensor = again.graph.node[0].attribute[0].g.node[0].attribute[0].t
    assert (tensor.name, list(tensor.float_data)) == ("", [1, 2])
    assert branch.node[0].attribute[0].t.name == "stft.basis"


@pytest.mark.parametrize("place", ["initializer 'v'", "the tensor in the node that writes 'p'"])
def test_inner_values_that_text_would_change(place: str) -> None:
    proto = onnx_text.parse(WITH_BODY.encode())
    branch = proto.graph.node[0].attribute[0].g
    tensor = branch.initializer[0] if "v" in place[-3:] else branch.node[0].attribute[0].t
    tensor.ClearField("float_data")
    tensor.raw_data = np.array([0x7FC00123, 0], np.uint32).tobytes()
    with pytest.raises(FormatError) as caught:
        onnx_text.to_text(proto)
    assert str(caught.value) == f"the text form cannot hold the values of {place}; write .onnx"


def test_a_nan_that_text_would_change() -> None:
    proto = onnx_text.parse(MODEL.encode())
    nan = np.array([0x7FC00123], np.uint32).view(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(nan, "n"))
    with pytest.raises(FormatError) as caught:
        onnx_text.to_text(proto)
    assert str(caught.value) == (
        "the text form cannot hold the values of initializer 'n'; write .onnx"
    )


@pytest.mark.parametrize("number", ["9" * 30, "-" + "9" * 30])
def test_numbers_that_are_too_large(number: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx.txt"
    path.write_text(
        '<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) '
        f"{{ y = Softmax<axis = {number}>(x) }}"
    )
    with pytest.raises(FormatError):
        load(path)

"""Files of other programs: each is called what it is, with the way to a model."""

import io
import zipfile
from pathlib import Path

import pytest

from whileback.errors import FormatError
from whileback.formats import load


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name in names:
            written.writestr(name, b"x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (archive("net/data.pkl", "net/version"), "is a file of PyTorch's, not an ONNX model; load"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "is a file of PyTorch's, not an ONNX model"),
        (
            b"\x1c\x00\x00\x00TFL3" + bytes(64),
            "is a TensorFlow Lite model, not an ONNX model; conv",
        ),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "is a model of Keras's, not an ONNX model; load it"),
        (archive("config.json", "model.weights.h5"), "is a model of Keras's, not an ONNX model"),
        (b"\x08\x00\x00\x00ORTM" + bytes(64), "is in ONNX Runtime's own format, from which"),
        (b"\x02" + bytes(7) + b"{}", "is no ONNX model, or damaged or truncated (Protobuf says:"),
        (
            b"\x20" + bytes(7) + b'{"w":{"dtype":"F32"}}',
            "is a file of safetensors: weights without",
        ),
        (b'{"format": "onnx"}', "is JSON, not an ONNX model; give the model in Protobuf or in"),
        (b"<!DOCTYPE html><html></html>", "is a page or XML, not an ONNX model; download the file"),
        (b"\x1f\x8b\x08" + bytes(20), "is packed by gzip; unpack it first"),
        (archive("model.onnx"), "is an archive that holds an ONNX model; unpack it first"),
        (archive("x.npy"), "is an archive of NumPy's arrays, not an ONNX model"),
        (archive("readme"), "is an archive, not an ONNX model; unpack it first"),
        (b"PK\x03\x04 and no more", "is an archive, not an ONNX model; unpack it first"),
        (b"\x0a\x03net\x12\x7f", "begins as a Caffe2 net does, not as an ONNX model; if it is one"),
    ],
)
def test_a_file_of_another_program_is_called_by_its_name(
    data: bytes, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        load(file)
    assert str(caught.value).startswith(f"'{file}': {told}")


def test_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FormatError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"'{tmp_path}': is a SavedModel of TensorFlow's, not an ONNX model; convert it with "
        "tf2onnx (python -m tf2onnx.convert --saved-model FOLDER --output model.onnx)"
    )

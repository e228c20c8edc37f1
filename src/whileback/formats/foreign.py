"""Files that are no ONNX model, told by how they begin, and how to get a model from them."""

from __future__ import annotations

import io
import zipfile

__all__ = ["foreign"]

_TORCH = (
    "is a file of PyTorch's, not an ONNX model; load it there and write the model with "
    "torch.onnx.export"
)
_KERAS = (
    "is a model of Keras's, not an ONNX model; load it there and write the model with "
    "model.export(…, format='onnx'), or with tf2onnx"
)
# Where a mark stands, the mark, and what is told of such a file.
_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"<", "is a page or XML, not an ONNX model; download the file itself again"),
    (0, b"\x89HDF\r\n\x1a\n", _KERAS),
    (
        4,
        b"TFL3",
        "is a TensorFlow Lite model, not an ONNX model; convert it with tf2onnx "
        "(python -m tf2onnx.convert --tflite FILE --output model.onnx)",
    ),
    (
        4,
        b"ORTM",
        "is in ONNX Runtime's own format, from which there is no way back; give the ONNX model "
        "that it was made of",
    ),
    (0, b"\x89PNG", "is a picture, not an ONNX model"),
    (0, b"\x93NUMPY", "is an array of NumPy's, not an ONNX model"),
    (0, b"\x1f\x8b", "is packed by gzip; unpack it first"),
    (0, b"\x80\x02", _TORCH),
    (0, b"\x80\x04", "is a pickle, which is never loaded, not an ONNX model"),
    (8, b'{"', "is a file of safetensors: weights without a graph; give the ONNX model"),
    (0, b"\n", "begins as a Caffe2 net does, not as an ONNX model; if it is one, name it .pb"),
    (0, b"{", "is JSON, not an ONNX model; give the model in Protobuf or in ONNX's text form"),
)
# What stands in archives, by the end of a name.
_MEMBERS = (
    ("data.pkl", _TORCH),
    ("constants.pkl", _TORCH),
    (".weights.h5", _KERAS),
    (".npy", "is an archive of NumPy's arrays, not an ONNX model"),
    (".onnx", "is an archive that holds an ONNX model; unpack it first"),
)


def foreign(data: bytes) -> str | None:
    """Return what a file is that is no ONNX model, and what to do; None if that cannot be told."""
    if data.startswith(b"PK"):
        return _archive(data)
    for place, mark, told in _MARKS:
        if data[place : place + len(mark)] == mark:
            return told
    return None


def _archive(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        names = []
    for end, told in _MEMBERS:
        if any(name.endswith(end) for name in names):
            return told
    return "is an archive, not an ONNX model; unpack it first"

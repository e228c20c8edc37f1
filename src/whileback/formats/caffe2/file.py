"""Caffe2's files: nets in `.pb` and `.pbtxt`, blobs, and predictor exports in a minidb."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError, EncodeError, Message

from whileback.errors import NetDefError
from whileback.formats.atomic import atomic_files, require_free
from whileback.formats.caffe2.caffe2_pb2 import (
    BlobProto,
    MetaNetDef,
    NetDef,
    PlanDef,
    TensorProto,
    TensorProtos,
)
from whileback.formats.caffe2.minidb import records
from whileback.formats.caffe2.tensors import to_array
from whileback.formats.files import errors_name, read_bytes
from whileback.formats.proto_text import require_text

__all__ = ["Predictor", "is_caffe2", "load", "load_blobs", "load_plan", "load_predictor", "save"]

M = TypeVar("M", bound=Message)

_TEXT = (".pbtxt", ".prototxt", ".txt")
_SUFFIXES = (".pb", ".pbtxt", ".prototxt", ".minidb")
# The first byte of an ONNX model: its field 1 is a number, that of a net a name.
_ONNX = b"\x08"
_META = "!!META_NET_DEF"
_PREDICT, _INIT, _GLOBAL_INIT = (
    f"{name}_NET_TYPE" for name in ("PREDICT", "PREDICT_INIT", "GLOBAL_INIT")
)
_INPUTS, _OUTPUTS = "INPUTS_BLOB_TYPE", "OUTPUTS_BLOB_TYPE"
# A blob of several chunks is stored under keys such as `w#%0`, `w#%1`.
_CHUNK = "#%"
# How much of a parser's own words is shown.
_LONGEST = 400

Path_ = str | os.PathLike[str]


def is_caffe2(path: Path_) -> bool:
    """Tell by a file's name, and by its first byte, whether it is one of Caffe2's."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        return False
    if path.suffix != ".pb" or not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(1) != _ONNX


def load(path: Path_) -> NetDef:
    """Read a net: text if the name ends in `.pbtxt`, `.prototxt` or `.txt`, else binary.

    A predictor export (`.minidb`) gives the net that predicts. What the messages do not know
    stays in them and is written again.

    Raises:
        FormatError: the file cannot be read.
        NetDefError: it holds no net, or is damaged.

    >>> load("net.pbtxt").op[0].type  # doctest: +SKIP
    'FC'
    """
    if Path(path).suffix == ".minidb":
        return load_predictor(path).net
    net = _load(path, NetDef)
    if not net.op and not net.external_output:
        raise NetDefError(f"'{path}': holds no operator; it is no net, or of another format")
    return net


def load_plan(path: Path_) -> PlanDef:
    """Read a plan, which holds nets and the steps that run them. Raises: as `load`."""
    return _load(path, PlanDef)


def save(net: NetDef, path: Path_, *, overwrite: bool = False) -> None:
    """Write a net, whole or not at all: text if the name ends as `load` says, else binary.

    Raises: FormatError if a file is in the way or cannot be written.
    """
    path = Path(path).absolute()
    require_free(path, overwrite)
    with errors_name(path), atomic_files() as open_file:
        try:
            if path.suffix in _TEXT:
                data = text_format.MessageToString(net).encode()
            else:
                data = net.SerializeToString(deterministic=True)
        except (EncodeError, ValueError):
            raise NetDefError("the net takes more than 2 GB, and Protobuf holds no more") from None
        except RecursionError:
            raise NetDefError(
                "the net is nested too deep to be written as text; write it as .pb"
            ) from None
        open_file(path).write(data)


@dataclass(frozen=True)
class Predictor:
    """A net as it is exported for prediction, with the blobs that it needs.

    `init_nets` run before `net`, in their order; `blobs` are there before all of them, and stand
    for the operators `Load` of those nets, which would read them from the file.
    """

    net: NetDef
    init_nets: list[NetDef] = field(default_factory=list)
    blobs: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def load_predictor(path: Path_) -> Predictor:
    """Read a predictor export: a minidb with a `MetaNetDef` and the parameters.

    Raises: FormatError, NetDefError as `load`.
    """
    path = Path(path)
    with errors_name(path):
        values = dict(records(read_bytes(path)))
        if _META not in values:
            raise NetDefError(
                f"has no record '{_META}', so it is no predictor export; blobs alone are read "
                "as an init net"
            )
        meta = _parsed(_parsed(values.pop(_META), BlobProto).content, MetaNetDef)
        nets = {entry.key: entry.value for entry in meta.nets}
        if _PREDICT not in nets:
            raise NetDefError(f"has no net '{_PREDICT}', only {sorted(nets)}")
        lists = {entry.key: list(entry.value) for entry in meta.blobs}
        return Predictor(
            nets[_PREDICT],
            [_without_load(nets[key]) for key in (_GLOBAL_INIT, _INIT) if key in nets],
            _blobs(values),
            lists.get(_INPUTS, []),
            lists.get(_OUTPUTS, []),
        )


def _without_load(net: NetDef) -> NetDef:
    kept = [op for op in net.op if op.type != "Load"]
    del net.op[:]
    net.op.extend(kept)
    return net


def load_blobs(path: Path_) -> dict[str, np.ndarray]:
    """Read the tensors of a file: a minidb, or one `BlobProto`, `TensorProtos` or `TensorProto`.

    Strings are bytes in an array of objects.

    Raises: FormatError, NetDefError as `load`.
    """
    path = Path(path)
    with errors_name(path):
        data = read_bytes(path)
        if path.suffix == ".minidb":
            return _blobs({key: value for key, value in records(data) if key != _META})
        for tensors in (_of_blob(data), _of_tensors(data), _of_tensor(data)):
            if tensors:
                return {tensor.name or path.stem: to_array(tensor) for tensor in tensors}
        raise NetDefError("holds no tensors; give a file of blobs, or an init net")


def _of_blob(data: bytes) -> list[TensorProto]:
    blob = _attempt(data, BlobProto)
    if blob is None or not blob.HasField("tensor"):
        return []
    blob.tensor.name = blob.name or blob.tensor.name
    return [blob.tensor]


def _of_tensors(data: bytes) -> list[TensorProto]:
    tensors = _attempt(data, TensorProtos)
    return list(tensors.protos) if tensors is not None else []


def _of_tensor(data: bytes) -> list[TensorProto]:
    tensor = _attempt(data, TensorProto)
    return [tensor] if tensor is not None and tensor.HasField("data_type") else []


def _attempt(data: bytes, kind: type[M]) -> M | None:
    try:
        return _parsed(data, kind)
    except NetDefError:
        return None


def _blobs(values: dict[str, bytes]) -> dict[str, np.ndarray]:
    """Return the tensors of a database, each put together from its chunks."""
    chunks: dict[str, list[np.ndarray]] = {}
    dims: dict[str, list[int]] = {}
    for key, value in values.items():
        blob = _parsed(value, BlobProto)
        if not blob.HasField("tensor"):
            continue
        name = blob.name or key.partition(_CHUNK)[0]
        dims[name] = list(blob.tensor.dims)
        if blob.tensor.HasField("segment"):
            size = blob.tensor.segment.end - blob.tensor.segment.begin
            blob.tensor.ClearField("dims")
            blob.tensor.dims.append(size)
        chunks.setdefault(name, []).append(to_array(blob.tensor).ravel())
    return {name: _joined(name, parts, dims[name]) for name, parts in chunks.items()}


def _joined(name: str, parts: list[np.ndarray], dims: list[int]) -> np.ndarray:
    try:
        return np.concatenate(parts).reshape(dims)
    except ValueError:
        held = sum(part.size for part in parts)
        raise NetDefError(
            f"holds {held} elements of blob '{name}', whose dimensions are {dims}; the file is "
            "damaged, or a part of it is missing"
        ) from None


def _shortened(text: str) -> str:
    """Return the beginning of what a parser says, which may hold a whole line of the file."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _load(path: Path_, kind: type[M]) -> M:
    path = Path(path)
    with errors_name(path):
        data = read_bytes(path)
        return _parsed_text(data, kind) if path.suffix in _TEXT else _parsed(data, kind)


def _parsed(data: bytes, kind: type[M]) -> M:
    try:
        message: M = kind.FromString(data)
    except DecodeError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise NetDefError(
            f"holds no {kind.DESCRIPTOR.name}, or is damaged, truncated or nested too deep "
            f"(Protobuf says: {reason}); text form is read from .pbtxt and .prototxt"
        ) from None
    require_text(message, NetDefError)
    return message


def _parsed_text(data: bytes, kind: type[M]) -> M:
    try:
        message: M = text_format.Parse(data.decode("utf-8"), kind())
    except UnicodeDecodeError:
        raise NetDefError("is no text; name a binary file .pb") from None
    except (text_format.ParseError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else _shortened(str(error))
        raise NetDefError(f"is no {kind.DESCRIPTOR.name} in text form: {reason}") from None
    return message

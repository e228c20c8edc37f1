"""ONNX files: `.onnx` and the text form, read into an `ir.Model` and written from one."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, EncodeError
from onnx_ir.serde import SerdeError, TensorProtoTensor

from whileback.errors import FormatError, UnsupportedError, WhilebackError
from whileback.formats import onnx_text
from whileback.formats.atomic import atomic_files, require_free
from whileback.formats.data_layout import DataLayout, ExternalData, Progress, check_references
from whileback.formats.declared import forget_impossible
from whileback.formats.external_data import DataFolder
from whileback.formats.files import errors_name, read_bytes
from whileback.formats.foreign import foreign
from whileback.formats.proto_checks import check_model
from whileback.formats.proto_text import require_text
from whileback.formats.tensors import places
from whileback.signatures import require_types

__all__ = ["from_proto", "load", "save", "to_proto"]


def load(path: str | os.PathLike[str]) -> ir.Model:
    """Read the ONNX model at `path`: text if it ends in `.onnx.txt`, `.onnxtxt` or `.txt`.

    External data is checked but not read: it stays by reference, as `ir.ExternalTensor`.
    Sections that hold no part of the inference graph (`training_info`) are left out.

    Raises:
        FormatError: the file cannot be read, is no ONNX model, or refers to data that is not
            a plain file in the model's folder.
        GraphError: a graph writes a name twice.
        UnsupportedError: IR version below 3, opset below 7, or either newer than the package
            onnx; sparse tensors.
    """
    require_types(load, locals())
    path = Path(path)
    with errors_name(path):
        data = read_bytes(path)
        proto = onnx_text.parse(data) if onnx_text.is_text(path) else _parse(data)
        del data
        return _deserialized(proto, DataFolder(path.parent))


def from_proto(proto: onnx.ModelProto, base_dir: str | os.PathLike[str] | None) -> ir.Model:
    """Return `proto` as an `ir.Model` that shares its data; `base_dir` holds external data.

    Raises:
        FormatError, GraphError, UnsupportedError: as for `load`; FormatError also when there is
            external data and no `base_dir`.
    """
    folder = None if base_dir is None else DataFolder(base_dir)
    model = _deserialized(proto, folder)
    for place in list(places(model)):
        if isinstance(place.tensor, TensorProtoTensor):
            place.put(_renameable(place.tensor))
    return model


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Return `model` as a ModelProto in which external data stays by reference.

    Raises:
        FormatError: external data is refused as in `load`, or lies in more than one folder.
        UnsupportedError: subgraphs nested too deep.
    """
    check_references(model)
    return _serialized(model)


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: ExternalData | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write `model` to `path`, whole or not at all, as text if `load` would read it as text.

    External data in the folder of `path` stays where it is. Data in another folder is copied into
    the file `<path>.data` (`external_data="copy"`), or referred to where that folder lies inside
    of the output's (`"reference"`). A model of more than 2 GB has its initializers in that file.

    Args:
        model: what to write; it is the same afterwards.
        path: the file to write.
        external_data: what to do with data in another folder; None refuses.
        overwrite: whether files of those names may be replaced.
        progress: called with file name, bytes done and bytes in all, while data is written.

    Raises:
        FormatError: a file is in the way, cannot be written, or external data is refused.
        ArgumentError: `external_data` is something else.
    """
    path = Path(path).absolute()
    layout = DataLayout(model, path, external_data)
    for file in [path, layout.file] if layout.needs_file else [path]:
        _check_target(file, layout, overwrite)
    with errors_name(path), atomic_files() as open_file:
        if layout.needs_file:
            layout.write(open_file(layout.file), progress)
        with layout.applied():
            proto = _serialized(model)
        open_file(path).write(_encoded(proto, path))


def _parse(data: bytes) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        reason = str(error).partition(": ")[2]
        told = foreign(data) or (
            f"is no ONNX model, or damaged or truncated (Protobuf says: {reason}); "
            "text form is read from .onnx.txt, .onnxtxt and .txt"
        )
        raise FormatError(told) from None
    require_text(proto)
    return proto


def _deserialized(proto: onnx.ModelProto, folder: DataFolder | None) -> ir.Model:
    check_model(proto, folder)
    try:
        model = ir.from_proto(proto)
    except (SerdeError, RecursionError) as error:
        raise _root(error, "cannot be read") from error
    forget_impossible(model)
    if folder is not None:
        for place in places(model):
            if isinstance(place.tensor, ir.ExternalTensor):
                place.tensor.base_dir = folder.path
    return model


def _serialized(model: ir.Model) -> onnx.ModelProto:
    try:
        return ir.to_proto(model)
    except (SerdeError, RecursionError) as error:
        raise _root(error, "cannot be written") from error


def _root(error: BaseException, what: str) -> WhilebackError:
    """Return the first cause of `error`, and the innermost part that it names, as our error."""
    part = "the model"
    while error.__cause__ is not None:
        part = str(error).partition(" with: ")[2] or part
        error = error.__cause__
    if isinstance(error, RecursionError):
        return UnsupportedError(f"the model {what}: it is nested too deep; make it flatter")
    return FormatError(f"the model {what}: {error}; correct {part[:80]!r}")


def _renameable(tensor: TensorProtoTensor) -> ir.LazyTensor:
    """Return `tensor` with a name of its own, so that renaming it leaves the caller's proto be."""
    return ir.LazyTensor(
        lambda: tensor,
        dtype=tensor.dtype,
        shape=tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _check_target(file: Path, layout: DataLayout, overwrite: bool) -> None:
    if file.resolve() in layout.sources:
        raise FormatError(f"'{file}' holds data of the model itself; choose another output name")
    require_free(file, overwrite)


def _encoded(proto: onnx.ModelProto, path: Path) -> bytes:
    if onnx_text.is_text(path):
        return onnx_text.to_text(proto).encode("utf-8")
    try:
        data: bytes = proto.SerializeToString(deterministic=True)
    except (EncodeError, ValueError):
        raise FormatError(
            "the model takes more than 2 GB without its initializers, and Protobuf holds no more; "
            "turn large Constant nodes into initializers"
        ) from None
    return data

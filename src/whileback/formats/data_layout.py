"""Where the data of a model goes when it is saved.

Data that already lies beside the output stays where it is and is never read. All other data is
referred to, or copied into one file beside the output, as the caller says. What is too much for
Protobuf, which holds 2 GB, goes into the same file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import onnx_ir as ir

from whileback.errors import ArgumentError, FormatError
from whileback.formats.external_data import DataFolder, Reference
from whileback.formats.tensors import Place, places

__all__ = ["DataLayout", "ExternalData", "Progress", "check_references"]

ExternalData = Literal["reference", "copy"]
Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes written so far, and the bytes there will be."""

# Protobuf ends at 2**31 bytes; 64 MiB are left for all that is not a tensor.
MAX_MODEL_BYTES = 2**31 - 2**26
# Smaller initializers stay in the model, where they are easier to read.
SMALLEST_MOVED = 1024
_CHUNK = 16 * 2**20
# Kernels load rows of 64 bytes fastest when they start at a multiple of it.
_ALIGNMENT = 64


def check_references(model: ir.Model) -> DataFolder | None:
    """Check every external tensor of `model` where it lies; return the folder they share.

    Raises:
        FormatError: a reference that `DataFolder.check` refuses, or two folders.
    """
    shared: DataFolder | None = None
    for place in places(model):
        if not isinstance(place.tensor, ir.ExternalTensor):
            continue
        folder = _folder_of(place.tensor, place.where, shared)
        folder.check(Reference.of(place.tensor, place.where))
        if shared is not None and folder is not shared:
            raise FormatError(
                f"{place.where}: its data lies in the folder '{folder.path}', and that of others "
                f"in '{shared.path}'; save the model to a file with external_data='copy'"
            )
        shared = folder
    return shared


def _folder_of(tensor: ir.ExternalTensor, where: str, known: DataFolder | None) -> DataFolder:
    if not tensor.base_dir:
        raise FormatError(
            f"{where}: its data lies in the file {os.fspath(tensor.location)!r}, and nothing says "
            "in which folder; set the tensor's base_dir"
        )
    folder = DataFolder(tensor.base_dir)
    return known if known is not None and known.is_same(folder) else folder


class DataLayout:
    """Which tensors of a model get a new place in the data file, and which a new location."""

    def __init__(self, model: ir.Model, output: Path, external_data: ExternalData | None) -> None:
        if external_data not in (None, "reference", "copy"):
            raise ArgumentError(
                f"external_data={external_data!r} is none of 'reference', 'copy' and None"
            )
        self.file = output.with_name(f"{output.name}.data")
        self.sources: set[Path] = set()
        self.nbytes = 0
        self._choice = external_data
        self._output_folder = DataFolder(output.parent)
        self._known_folder: DataFolder | None = None
        self._pieces: list[tuple[int, ir.TensorProtocol, Path | None]] = []
        self._offsets: dict[tuple[Path, int, int], int] = {}
        self._moved: list[tuple[Place, ir.ExternalTensor]] = []
        self._place_all(list(places(model)))

    def _place_all(self, all_places: list[Place]) -> None:
        in_memory = [p for p in all_places if not isinstance(p.tensor, ir.ExternalTensor)]
        for place in all_places:
            if isinstance(place.tensor, ir.ExternalTensor):
                self._place_external(place, place.tensor)
        if sum(_nbytes(place.tensor) for place in in_memory) > MAX_MODEL_BYTES:
            for place in in_memory:
                if place.is_initializer and _nbytes(place.tensor) >= SMALLEST_MOVED:
                    self._move(place, self.file.name, self._append(place.tensor, None))

    def _place_external(self, place: Place, tensor: ir.ExternalTensor) -> None:
        folder = _folder_of(tensor, place.where, self._known_folder)
        self._known_folder = folder
        reference = Reference.of(tensor, place.where)
        source = folder.check(reference)
        self.sources.add(source)
        if folder.is_same(self._output_folder):
            return
        if self._choice == "copy":
            key = (source, reference.offset, reference.nbytes)
            if key not in self._offsets:
                self._offsets[key] = self._append(tensor, source)
            self._move(place, self.file.name, self._offsets[key])
        else:
            self._move(place, self._location(place, source), reference.offset)

    def _location(self, place: Place, source: Path) -> str:
        """Return the location by which the output can refer to the file `source`."""
        location = self._output_folder.location_of(source)
        here = f"{place.where}: its data lies in '{source}'"
        if self._choice is None:
            raise FormatError(
                f"{here}, and the output in another folder, '{self._output_folder.path}'; choose "
                "--external-data reference|copy (in Python external_data=), or that folder"
            )
        if location is None:
            raise FormatError(
                f"{here}, outside of the output's folder '{self._output_folder.path}', and a "
                "reference cannot leave that folder; use --external-data copy (in Python "
                "external_data='copy')"
            )
        return location

    def _append(self, tensor: ir.TensorProtocol, source: Path | None) -> int:
        """Give `tensor` the next piece of the data file; return its offset."""
        offset = -(-self.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._pieces.append((offset, tensor, source))
        self.nbytes = offset + tensor.nbytes
        return offset

    def _move(self, place: Place, location: str, offset: int) -> None:
        tensor = place.tensor
        moved = ir.ExternalTensor(
            location,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
            base_dir=self._output_folder.path,
        )
        self._moved.append((place, moved))

    @property
    def needs_file(self) -> bool:
        """Whether there is data to be written into the data file."""
        return bool(self._pieces)

    def write(self, file: BinaryIO, progress: Progress | None) -> None:
        """Write the data file, in pieces of 16 MiB where the data comes from another file."""
        for offset, tensor, source in self._pieces:
            file.write(bytes(offset - file.tell()))
            chunks = _write_memory(tensor, file) if source is None else _copy(tensor, source, file)
            for done in chunks:
                if progress is not None:
                    progress(self.file.name, done, self.nbytes)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the model refer to where its data will be, and put everything back at the end."""
        try:
            for place, moved in self._moved:
                place.put(moved)
            yield
        finally:
            for place, _ in self._moved:
                place.put(place.tensor)


def _nbytes(tensor: ir.TensorProtocol) -> int:
    if tensor.dtype == ir.DataType.STRING:
        return sum(map(len, tensor.numpy().flat))
    return tensor.nbytes


def _write_memory(tensor: ir.TensorProtocol, file: BinaryIO) -> Iterator[int]:
    # `tofile` spares the copy that `tobytes` makes of a NumPy array.
    if isinstance(tensor, ir.Tensor | ir.LazyTensor):
        tensor.tofile(file)
    else:
        file.write(tensor.tobytes())
    yield file.tell()


def _copy(tensor: ir.TensorProtocol, source: Path, file: BinaryIO) -> Iterator[int]:
    assert isinstance(tensor, ir.ExternalTensor)
    left = tensor.nbytes
    with source.open("rb", buffering=0) as data:
        data.seek(tensor.offset or 0)
        while left:
            chunk = data.read(min(left, _CHUNK))
            if not chunk:
                raise FormatError(f"'{source}' became shorter while it was copied; copy it again")
            left -= file.write(chunk)
            yield file.tell()

"""Checkpoints: what a step keeps, as safetensors, whole or not at all.

A file holds one tensor for each input that a step carries, and in its metadata how many steps were
made, which step made them, where the data was read, and a checksum of each tensor.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from whileback.errors import ArgumentError, FormatError
from whileback.formats.atomic import atomic_files, require_free
from whileback.formats.files import errors_name
from whileback.signatures import require_types
from whileback.training.flat import parted
from whileback.training.interface import Interface

__all__ = ["Checkpoint", "read_checkpoint", "read_parameters", "write_checkpoint"]

_KEY = "whileback.checkpoint"
_VERSION = 1
_TYPES = {
    "checksums": dict,
    "interface": dict,
    "position": dict,
    "signature": str,
    "steps": int,
}
_FOREIGN = (
    "has metadata that whileback has not written; name a checkpoint that training has written"
)


@dataclass(frozen=True)
class Checkpoint:
    """A moment of training.

    Attributes:
        state: by input of the step, its value for the next one.
        steps: how many were made.
        signature: of the step; see `Trainer.signature`.
        interface: what of the state is what to the step.
        position: what the caller needs to go on from there, as JSON has it.
    """

    state: Mapping[str, np.ndarray]
    steps: int
    signature: str
    interface: Interface
    position: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self, average: bool = False) -> dict[str, np.ndarray]:
        """Return parameters and running statistics, as the inputs of the step.

        Args:
            average: whether to take the moving averages of parameters in place of these.

        Raises: ArgumentError if averages are asked for, and the step keeps none.
        """
        known = self.interface
        if average and not known.averages:
            raise ArgumentError(
                "The step keeps no moving averages. Make it with average=0.999, or take the "
                "parameters themselves."
            )
        averages = known.averages if average else {}
        names = [*known.parameters, *known.statistics]
        return {name: self.state[averages.get(name, name)] for name in names}

    def parameters(self, average: bool = False) -> dict[str, np.ndarray]:
        """Return parameters and running statistics, for `whileback.training.export`.

        A vector of all parameters is taken apart. For argument and errors see `inputs`.
        """
        found, known = self.inputs(average), self.interface
        if known.flat:
            found |= parted(known, found.pop(known.parameters[0]))
        return found


def write_checkpoint(
    path: str | os.PathLike[str], checkpoint: Checkpoint, overwrite: bool = False
) -> None:
    """Write a checkpoint to `path`: what stood there stays until all is on the disk.

    Raises: FormatError if the file cannot be written, or exists and is not to be replaced.
    """
    require_types(write_checkpoint, locals())
    path = Path(path)
    require_free(path, overwrite)
    state = {name: np.asarray(array, order="C") for name, array in checkpoint.state.items()}
    said = {
        "version": _VERSION,
        "signature": checkpoint.signature,
        "steps": checkpoint.steps,
        "position": checkpoint.position,
        "interface": asdict(checkpoint.interface),
        "checksums": {name: _checksum(array) for name, array in state.items()},
    }
    text = json.dumps(said, sort_keys=True)
    # One entry, since the order of several would differ from file to file.
    metadata = {_KEY: f"{zlib.crc32(text.encode())} {text}"}
    save_file = _safetensors().numpy.save_file
    with errors_name(path), atomic_files(durable=True) as open_file:
        file = open_file(path)
        mode = os.fstat(file.fileno()).st_mode
        save_file(state, file.name, metadata)
        # safetensors puts a file of its own there, which only its owner may read.
        Path(file.name).chmod(stat.S_IMODE(mode))


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the checkpoint at `path`, and check that it is whole.

    Raises: FormatError if it cannot be read, is no checkpoint, or is damaged; it says where.
    """
    require_types(read_checkpoint, locals())
    path = Path(path)
    safetensors = _safetensors()
    with errors_name(path):
        if not path.is_file():
            raise FormatError("is no file; name a checkpoint, such as 'last.safetensors' of a run")
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                said = _said(file.metadata() or {})
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except safetensors.SafetensorError as error:
            raise FormatError(f"is no checkpoint, or damaged or truncated ({error})") from error
        except (AttributeError, TypeError) as error:
            raise FormatError(f"has a tensor of a type that no step keeps ({error})") from error
        _check(state, said.pop("checksums"))
        known = _interface(said.pop("interface"), state)
    return Checkpoint(state=state, interface=known, **said)


def read_parameters(path: str | os.PathLike[str], average: bool = False) -> dict[str, np.ndarray]:
    """Read parameters and running statistics, for `whileback.training.export`.

    Args:
        path: a checkpoint, or the tensors that another program has written as safetensors, under
            the names of a step's inputs.
        average: of a checkpoint, whether to take the moving averages of parameters.

    Raises:
        ArgumentError: averages are asked for, and there are none.
        FormatError: as `read_checkpoint`.
    """
    require_types(read_parameters, locals())
    path = Path(path)
    safetensors = _safetensors()
    with errors_name(path):
        if not path.is_file():
            raise FormatError("is no file; name a checkpoint, or tensors as .safetensors")
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                if _KEY not in (file.metadata() or {}):
                    if average:
                        raise ArgumentError("holds no moving averages: it is no checkpoint")
                    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except safetensors.SafetensorError as error:
            raise FormatError(f"is damaged or truncated ({error}); write it again") from error
    return read_checkpoint(path).parameters(average)


def _said(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return what a file says about itself."""
    if _KEY not in metadata:
        raise FormatError(
            "holds tensors, but is no checkpoint of whileback; name one that training has written"
        )
    checksum, _, text = metadata[_KEY].partition(" ")
    if checksum != str(zlib.crc32(text.encode())):
        raise FormatError("is damaged: its metadata has another checksum; take another checkpoint")
    try:
        said = json.loads(text)
        version = said.pop("version")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise FormatError(_FOREIGN) from None
    if version != _VERSION:
        raise FormatError(
            f"is of version {version!r}, and this whileback reads {_VERSION}; take the whileback "
            "that has written it"
        )
    if {name: type(each) for name, each in said.items()} != _TYPES:
        raise FormatError(_FOREIGN)
    return dict(said)


def _check(state: Mapping[str, np.ndarray], checksums: Mapping[str, int]) -> None:
    """Refuse a file with other tensors than were written."""
    for name in sorted({*state, *checksums}):
        if name not in state or name not in checksums or _checksum(state[name]) != checksums[name]:
            raise FormatError(f"is damaged in tensor {name!r}; take another checkpoint")


def _interface(said: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> Interface:
    """Return the interface of a step, whose tensors are all there."""
    try:
        known = Interface.of(said)
        for name in (*known.parameters, *known.statistics, *known.averages.values()):
            _ = state[name]
        if known.flat:
            parted(known, np.ravel(state[known.parameters[0]]))
    except (ArgumentError, AttributeError, LookupError, TypeError, ValueError):
        raise FormatError(_FOREIGN) from None
    return known


def _checksum(array: np.ndarray) -> int:
    """Return a checksum of what an array holds, its type and shape included."""
    kind = zlib.crc32(f"{array.dtype.name}{array.shape}".encode())
    return zlib.crc32(np.asarray(array, order="C").reshape(-1).view(np.uint8).data, kind)


def _safetensors() -> ModuleType:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise FormatError(
            "Checkpoints need the package safetensors, which is not installed. Install it with: "
            "pip install 'whileback[training]'"
        ) from error
    return safetensors

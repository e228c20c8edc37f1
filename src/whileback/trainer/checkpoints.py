"""Checkpoints: what a step keeps, as safetensors, whole or not at all.

A file holds one tensor for each input that a step carries, and in its metadata how many steps were
made, which step made them, where the data was read, and a checksum of each tensor.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from whileback.errors import ArgumentError, FormatError
from whileback.formats.atomic import atomic_files, require_free
from whileback.formats.files import errors_name

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]

_KEY = "whileback.checkpoint"
_VERSION = 1
_TYPES = {
    "averages": dict,
    "checksums": dict,
    "position": dict,
    "signature": str,
    "steps": int,
    "tensors": list,
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
        position: what the caller needs to go on from there, as JSON has it.
        tensors: what of the state belongs to the model: parameters and running statistics.
        averages: by parameter, what of the state is its moving average.
    """

    state: Mapping[str, np.ndarray]
    steps: int
    signature: str
    position: Mapping[str, Any] = field(default_factory=dict)
    tensors: Sequence[str] = ()
    averages: Mapping[str, str] = field(default_factory=dict)

    def parameters(self, average: bool = False) -> dict[str, np.ndarray]:
        """Return parameters and running statistics, for `whileback.training.export`.

        Args:
            average: whether to take the moving averages of parameters in place of these.

        Raises: ArgumentError if averages are asked for, and the step keeps none.
        """
        if average and not self.averages:
            raise ArgumentError(
                "The step keeps no moving averages. Make it with average=0.999, or take the "
                "parameters themselves."
            )
        averages = self.averages if average else {}
        return {name: self.state[averages.get(name, name)] for name in self.tensors}


def write_checkpoint(
    path: str | os.PathLike[str], checkpoint: Checkpoint, overwrite: bool = False
) -> None:
    """Write a checkpoint to `path`: what stood there stays until all is on the disk.

    Raises: FormatError if the file cannot be written, or exists and is not to be replaced.
    """
    path = Path(path)
    require_free(path, overwrite)
    state = {name: np.asarray(array, order="C") for name, array in checkpoint.state.items()}
    said = {
        "version": _VERSION,
        "signature": checkpoint.signature,
        "steps": checkpoint.steps,
        "position": checkpoint.position,
        "tensors": checkpoint.tensors,
        "averages": checkpoint.averages,
        "checksums": {name: _checksum(array) for name, array in state.items()},
    }
    text = json.dumps(said, sort_keys=True)
    # One entry, since the order of several would differ from file to file.
    metadata = {_KEY: f"{zlib.crc32(text.encode())} {text}"}
    save_file = _safetensors().numpy.save_file
    with errors_name(path), atomic_files(durable=True) as open_file:
        save_file(state, open_file(path).name, metadata)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the checkpoint at `path`, and check that it is whole.

    Raises: FormatError if it cannot be read, is no checkpoint, or is damaged; it says where.
    """
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
        checkpoint = Checkpoint(state=state, **said)
        _check_names(checkpoint)
    return checkpoint


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


def _check_names(checkpoint: Checkpoint) -> None:
    """Refuse a file that speaks of tensors that it does not have."""
    spoken = [*checkpoint.tensors, *checkpoint.averages.values()]
    if any(not isinstance(name, str) or name not in checkpoint.state for name in spoken):
        raise FormatError(_FOREIGN)


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

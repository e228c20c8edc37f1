"""How far two tensors are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["Distance", "distance"]


@dataclass(frozen=True)
class Distance:
    """How far the elements of a tensor are off those of another one of its type and shape.

    Attributes:
        changed: how many elements differ.
        size: how many there are.
        relative: the Euclidean norm of the difference, as a part of that of the first tensor;
            NaN for what has no norm, such as strings.
        largest: the largest difference of two elements.
        index: where that is.
    """

    changed: int
    size: int
    relative: float = math.nan
    largest: float = math.nan
    index: tuple[int, ...] = ()

    def numbers(self) -> dict[str, float]:
        """Return the numbers as plain data."""
        return {
            "changed": self.changed,
            "size": self.size,
            "relative": self.relative,
            "largest": self.largest,
        }

    def __str__(self) -> str:
        counted = f"{self.changed} of {self.size} elements"
        if math.isnan(self.relative):
            return counted
        place = ",".join(map(str, self.index))
        return (
            f"off by {self.relative:.2g} of its norm, by at most {self.largest:.3g} at [{place}], "
            f"in {counted}"
        )


def distance(a: ir.TensorProtocol, b: ir.TensorProtocol) -> Distance | None:
    """Return how far two tensors of one type and shape are apart; None if they are the same.

    Not-a-number is the same as itself, and infinitely far from everything else.
    """
    place = _place(a)
    if a is b or (place is not None and place == _place(b)):
        return None
    one, other = a.numpy(), b.numpy()
    if one.dtype.kind in "OSUT":
        changed = int(np.count_nonzero(one != other))
        return Distance(changed, one.size) if changed else None
    if np.array_equal(_bits(one), _bits(other)):
        return None
    return _far(one, other)


def _far(one: np.ndarray, other: np.ndarray) -> Distance | None:
    kind = np.complex128 if one.dtype.kind == "c" else np.float64
    wide, others = one.astype(kind), other.astype(kind)
    same = (wide == others) | (np.isnan(wide) & np.isnan(others))
    if same.all():
        return None
    with np.errstate(all="ignore"):
        off = np.where(same, 0.0, np.nan_to_num(np.abs(wide - others), nan=np.inf))
        norm = float(np.linalg.norm(wide))
        relative = float(np.linalg.norm(off)) / norm if norm else math.inf
    index = np.unravel_index(int(np.argmax(off)), off.shape)
    changed = int(off.size - np.count_nonzero(same))
    found = tuple(int(place) for place in index)
    return Distance(changed, off.size, relative, float(off[found]), found)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _place(tensor: ir.TensorProtocol) -> tuple[Any, ...] | None:
    """Return where the data of a tensor lies, if that is in a file of its own."""
    if not isinstance(tensor, ir.ExternalTensor):
        return None
    return tensor.path, tensor.offset, tensor.length

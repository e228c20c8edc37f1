"""Where batches come from, in an order that a seed and the number of an epoch determine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from whileback.errors import ArgumentError

__all__ = ["Arrays", "Batch", "Data", "Indexed", "batches", "number_of_batches"]

Batch = Mapping[str, Any]


@runtime_checkable
class Indexed(Protocol):
    """Examples that can be read in any order."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def take(self, indices: np.ndarray) -> Batch:
        """Return the examples at INT64 indices [N] as one batch, arrays [N, …] by input."""
        ...


Data = Indexed | Iterable[Batch]


class Arrays:
    """Arrays [N, …] by input, of which each row is an example.

    Raises: ArgumentError if there are none, or their lengths differ.

    >>> import numpy as np
    >>> data = Arrays({"x": np.arange(6).reshape(3, 2), "label": np.arange(3)})
    >>> len(data), data.take(np.array([2, 0]))["label"].tolist()
    (3, [2, 0])
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        sizes = {name: len(a) if a.ndim else 0 for name, a in self._arrays.items()}
        if len(set(sizes.values())) != 1 or 0 in sizes.values():
            listed = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
            raise ArgumentError(
                f"Data needs arrays of the same number of rows, but {listed or 'there are none'}. "
                "Give each example one row of each array."
            )
        self._length = next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._length

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows of every array."""
        return {name: array[indices] for name, array in self._arrays.items()}


def batches(
    data: Data, size: int, *, seed: int | None, epoch: int = 0, skip: int = 0
) -> Iterator[Batch]:
    """Yield the batches of an epoch but for the first `skip`.

    Examples of `Indexed` data are shuffled by a counter-based generator keyed by seed and epoch, or
    in their own order where the seed is None; the last batch may be smaller. Other data yields its
    batches as they are.
    """
    if not isinstance(data, Indexed):
        yield from islice(iter(data), skip, None)
        return
    order = np.arange(len(data))
    if seed is not None:
        order = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(order)
    for start in range(skip * size, len(data), size):
        yield data.take(order[start : start + size])


def number_of_batches(data: Data, size: int) -> int | None:
    """Return how many batches an epoch has, None where only reading tells."""
    if isinstance(data, Indexed):
        return -(-len(data) // size)
    return len(data) if isinstance(data, Sized) else None

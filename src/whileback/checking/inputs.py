"""Random values for the inputs of a model, by type and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, EngineError
from whileback.graph.shapes import describe

__all__ = ["naming_made_up", "random_inputs"]

_SIZES = (3, 2, 4, 5)
# They take 1 GB.
_MOST = 2**27


def random_inputs(
    model: ir.Model, given: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    """Return a value for every input that has neither a given value nor a default.

    Floats are normal with a deviation of 1, integers 0 or 1, and 3 if the input is a scalar (a
    trip count, as a rule), booleans true for scalars and random in arrays. A symbolic dimension
    has the size that it has in a given value, or else 3, 2, 4 or 5, the same wherever it occurs.
    Sequences have two elements, optionals none.

    Raises:
        ArgumentError: an input of unknown type or rank is not given.
    """
    sizes = _known_sizes(model, given)
    inputs = dict(given)
    for value in model.graph.inputs:
        if value.name not in inputs and value.name not in model.graph.initializers:
            inputs[str(value.name)] = _random(value, sizes, rng)
    return inputs


@contextmanager
def naming_made_up(given: Mapping[str, Any], feeds: Mapping[str, Any]) -> Iterator[None]:
    """Let an error of a run say which of the inputs were made up: these may be why it fails.

    Raises:
        EngineError: the run raises it.
    """
    try:
        yield
    except EngineError as error:
        made = [f"{name!r} {_described(feeds[name])}" for name in feeds if name not in given]
        if not made:
            raise
        raise EngineError(
            f"{error}\nRandom values were made up for {', '.join(made)}. If the model takes no "
            "such values or sizes, give it others: `name=name.npy` on the command line, or "
            "`inputs={'name': array}`.",
            error.node,
            error.reason,
        ) from error


def _described(value: Any) -> str:
    """Return the shape of an array; of others, their kind."""
    if isinstance(value, np.ndarray):
        return f"[{','.join(map(str, value.shape))}]"
    return "(none)" if value is None else f"(a list of {len(value)})"


def _known_sizes(model: ir.Model, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of the symbols that occur in the shapes of given values."""
    sizes: dict[str, int] = {}
    for value in model.graph.inputs:
        if value.name in given and value.shape is not None:
            shape = np.shape(given[str(value.name)])
            for dim, size in zip(value.shape, shape, strict=False):
                if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                    sizes[dim.value] = size
    return sizes


def _random(value: ir.Value, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    if isinstance(value.type, ir.OptionalType):
        return None
    if value.dtype is None or value.shape is None:
        raise ArgumentError(
            f"Input {value.name!r} is {describe(value)}: no random value can be made up for it. "
            "Pass a value in `inputs`."
        )
    shape = [_size(dim, sizes) for dim in value.shape]
    if prod(shape) > _MOST:
        raise ArgumentError(
            f"Input {value.name!r} is {describe(value)}: so many random values are not made up. "
            "Pass a value in `inputs`."
        )
    if isinstance(value.type, ir.SequenceType):
        return [_array(value.dtype, shape, rng) for _ in range(2)]
    return _array(value.dtype, shape, rng)


def _size(dim: int | ir.SymbolicDim, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim.value is None:
        return _SIZES[0]
    return sizes.setdefault(dim.value, _SIZES[len(sizes) % len(_SIZES)])


def _array(dtype: ir.DataType, shape: list[int], rng: np.random.Generator) -> np.ndarray:
    if dtype == ir.DataType.STRING:
        return np.full(shape, "", dtype=object)
    if dtype.is_floating_point():
        return rng.normal(size=shape).astype(dtype.numpy())
    if not shape:
        return np.array(3 if dtype != ir.DataType.BOOL else True, dtype.numpy())
    return rng.integers(0, 2, size=shape).astype(dtype.numpy())

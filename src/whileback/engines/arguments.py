"""Checks the arrays that a compiled model is called with, before the runtime sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.printing import declared

__all__ = ["Binder", "Port", "Types", "bind"]

Types = list[tuple[str, type, Any, Any]] | None

# JAX makes arrays of 32 bits where one asks it for 64, unless `jax_enable_x64` is on.
_HALVES = {
    np.dtype(wide): np.dtype(half)
    for wide, half in (("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"))
}
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


@dataclass(frozen=True)
class Port:
    """An input or output of a model, as far as arrays can be checked against it.

    `dims` has a number, a symbol or None for each axis, and is None for an unknown rank.
    """

    name: str
    text: str
    kind: Literal["tensor", "sequence"]
    is_optional: bool
    dtype: np.dtype[Any] | None
    is_float: bool
    dims: tuple[int | str | None, ...] | None

    @classmethod
    def of(cls, value: ir.Value) -> Port:
        """Describe a value of a graph."""
        is_optional = isinstance(value.type, ir.OptionalType)
        inner = value.type.elem_type if isinstance(value.type, ir.OptionalType) else value.type
        dims = None
        if value.shape is not None:
            dims = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
        known = value.dtype is not None
        return cls(
            name=str(value.name),
            text=declared(value),
            kind="sequence" if isinstance(inner, ir.SequenceType) else "tensor",
            is_optional=is_optional,
            dtype=np.dtype(value.dtype.numpy()) if value.dtype is not None else None,
            is_float=known and value.dtype.is_floating_point(),  # type: ignore[union-attr]
            dims=dims,
        )


class Binder:
    """Checks the arguments of one model, as `bind` does, once for the same types in a row."""

    def __init__(
        self,
        model: str,
        inputs: Mapping[str, Port],
        optional: Collection[str],
        native: tuple[type, ...] = (),
    ) -> None:
        self._model, self._inputs, self._optional = model, inputs, optional
        self._native = native
        self._checked: Types = None

    def __call__(self, feeds: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by input name; raises what `bind` does."""
        return self.typed(feeds, named)[0]

    def typed(
        self, feeds: Mapping[str, Any], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Types]:
        """Return the arguments, and their types: the same object as long as these are the same."""
        given = {**feeds, **named} if named else dict(feeds)
        types = _types(given) if len(given) == len(feeds) + len(named) else None
        checked = self._checked
        if types is None or types != checked:
            given = bind(self._model, self._inputs, self._optional, feeds, named, self._native)
            # Arrays of the same types pass at once the next time.
            self._checked = checked = types if types == _types(given) else None
        return given, checked


def _types(arguments: Mapping[str, Any]) -> Types:
    """Return all that is checked of arrays, or None if some are of no type that is known."""
    try:
        return [(n, type(a), a.dtype, a.shape) for n, a in arguments.items()]
    except AttributeError:
        return None


def bind(
    model: str,
    inputs: Mapping[str, Port],
    optional: Collection[str],
    feeds: Mapping[str, Any],
    named: Mapping[str, Any],
    native: tuple[type, ...] = (),
) -> dict[str, Any]:
    """Return the arguments by input name, as arrays (lists of arrays for sequences).

    A value with a `dtype` must have exactly the input's; Python numbers, lists and tuples have
    none and are converted, unless that would turn a float into an integer or a boolean. Arrays of
    `native` types stay what they are; for an input of 64 bits they may have 32, see `_HALVES`.

    Raises:
        ArgumentError: a name is unknown, missing or given twice; a type, rank or size is wrong.
    """
    for name in feeds:
        if name in named:
            raise ArgumentError(f"Input {name!r} is given both in the mapping and by keyword.")
    given = {**feeds, **named}
    for name in given:
        if name not in inputs:
            raise ArgumentError(f"Model {model!r} has no input {name!r}; {nearest(name, inputs)}")
    missing = [port for name, port in inputs.items() if name not in given and name not in optional]
    if missing:
        listed = ", ".join(f"{port.name!r} {port.text}" for port in missing)
        raise ArgumentError(
            f"Model {model!r} needs more inputs: {listed}. Pass each one by keyword, "
            "or all in one mapping from names to arrays (on the command line as NAME=VALUE)."
        )
    bound = {name: _argument(inputs[name], argument, native) for name, argument in given.items()}
    _refuse_broadcasting(model, inputs, bound)
    return bound


def _refuse_broadcasting(model: str, inputs: Mapping[str, Port], bound: Mapping[str, Any]) -> None:
    """Refuse a size of 1 for what another input says is larger: it would run, and be wrong.

    Raises: ArgumentError. Other differences are left to the runtime, which notices them.
    """
    seen: dict[str, tuple[int, str]] = {}
    tensors = {n: value for n, value in bound.items() if hasattr(value, "shape")}
    for name, array in tensors.items():
        for symbol, have in zip(inputs[name].dims or (), array.shape, strict=False):
            if not isinstance(symbol, str):
                continue
            size, first = seen.setdefault(symbol, (have, name))
            if min(size, have) == 1 < max(size, have):
                raise ArgumentError(
                    f"Model {model!r} has one size {symbol!r}, but it is {size} in input "
                    f"{first!r} ({inputs[first].text}) and {have} in input {name!r} "
                    f"({inputs[name].text}). Pass arrays whose sizes agree."
                )


def _argument(port: Port, argument: Any, native: tuple[type, ...]) -> Any:
    """Return the argument as the runtime wants it, checked against the declared type."""
    if port.is_optional and argument is None:
        return None
    if port.kind == "sequence":
        if not isinstance(argument, (list, tuple)):
            raise ArgumentError(
                f"Input {port.name!r} is {port.text}, but got {type(argument).__name__!r}. "
                "Pass a list of arrays."
            )
        return [_tensor(port, item, native) for item in argument]
    return _tensor(port, argument, native)


def _tensor(port: Port, argument: Any, native: tuple[type, ...]) -> Any:
    is_native = isinstance(argument, native)
    if port.dtype is None:
        return argument if is_native else np.asarray(argument)
    if hasattr(argument, "dtype"):
        array = argument if is_native else np.asarray(argument)
        same = _same_type(array, port.dtype)
        if not same and not (is_native and _is_half(array, port.dtype)):
            raise _mismatch(port, array, f"Convert it with `astype({port.dtype.name!r})`.")
    else:
        array = _converted(port, port.dtype, argument)
    if port.dims is not None:
        _check_shape(port, port.dims, array)
    return array


def _check_shape(port: Port, dims: tuple[int | str | None, ...], array: Any) -> None:
    if array.ndim != len(dims):
        raise _mismatch(port, array, f"It must have rank {len(dims)}.")
    for axis, (want, have) in enumerate(zip(dims, array.shape, strict=True)):
        if isinstance(want, int) and want != have:
            raise _mismatch(port, array, f"Axis {axis} must have size {want}.")


def _converted(port: Port, dtype: np.dtype[Any], argument: Any) -> np.ndarray:
    """Turn Python numbers, lists of them, or strings into an array of the declared type."""
    if dtype.kind == "O":
        return np.asarray(argument, dtype=object)
    try:
        plain = np.asarray(argument)
        with np.errstate(over="raise"):
            array = np.asarray(argument, dtype=dtype)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ArgumentError(
            f"Input {port.name!r} is {port.text}, and the value passed for it "
            f"cannot be converted: {str(error).rstrip('.')}."
        ) from error
    allowed = _RANK["f" if port.is_float else dtype.kind]
    if plain.size and _RANK.get(plain.dtype.kind, 4) > allowed:
        number = plain.dtype.kind in _RANK
        raise _mismatch(port, plain, "That would lose digits." if number else "Pass numbers only.")
    return array


def _same_type(array: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether the array has the type; strings come in several."""
    return array.dtype == dtype or (dtype.kind == "O" and array.dtype.kind in "SUT")


def _is_half(array: Any, dtype: np.dtype[Any]) -> bool:
    # NumPy takes None for float64.
    return dtype in _HALVES and array.dtype == _HALVES[dtype]


def _mismatch(port: Port, array: Any, advice: str) -> ArgumentError:
    return ArgumentError(
        f"Input {port.name!r} is {port.text}, but got an array of {array.dtype.name} "
        f"with shape {array.shape}. {advice}"
    )

"""The arguments of an operator, by name and with the type that the operator expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np

from whileback.errors import NetDefError
from whileback.formats.caffe2.caffe2_pb2 import Argument, NetDef, OperatorDef

__all__ = ["Arguments", "add_argument", "label", "subnets"]

T = TypeVar("T")
# In the class these names are its methods.
Ints: TypeAlias = list[int]
Floats: TypeAlias = list[float]


def label(op: OperatorDef) -> str:
    """Return what messages call an operator: its type, and its first output or its name.

    >>> label(OperatorDef(type="Relu", input=["x"], output=["y"]))
    "Relu (writes 'y')"
    """
    if op.name:
        return f"{op.type} '{op.name}'"
    return f"{op.type} (writes '{op.output[0]}')" if op.output else op.type


def subnets(op: OperatorDef) -> Iterator[tuple[str, NetDef]]:
    """Yield the nets among an operator's arguments, with the names of those."""
    for arg in op.arg:
        if arg.HasField("n"):
            yield arg.name, arg.n
        for net in arg.nets:
            yield arg.name, net


def add_argument(op: OperatorDef, name: str, value: Any) -> None:
    """Give an operator an argument: an int, a float, a string, bytes, a net, or a list of these.

    An empty list is one of ints.

    >>> op = OperatorDef(type="Softmax")
    >>> add_argument(op, "axis", 2)
    >>> op.arg[0].i
    2
    """
    arg = op.arg.add(name=name)
    if isinstance(value, (list, tuple)):
        field, values = _stored(value[0] if value else 0)[0], [_stored(each)[1] for each in value]
        getattr(arg, _PLURAL[field]).extend(values)
    elif isinstance(value, NetDef):
        arg.n.CopyFrom(value)
    else:
        setattr(arg, *_stored(value))


_PLURAL = {"i": "ints", "f": "floats", "s": "strings", "n": "nets"}


def _stored(value: Any) -> tuple[str, Any]:
    """Return the field that holds a value, and what it holds."""
    if isinstance(value, (str, bytes)):
        return "s", value.encode() if isinstance(value, str) else value
    if isinstance(value, NetDef):
        return "n", value
    return ("i", int(value)) if isinstance(value, int | np.integer) else ("f", float(value))


class Arguments:
    """Reads the arguments of one operator.

    A number may stand where a boolean or a number of the other kind is expected, as in Caffe2.

    Raises (all methods): NetDefError if the argument holds something of another kind, or is
        missing and there is no default.

    >>> Arguments(OperatorDef(type="Softmax", arg=[Argument(name="axis", i=2)])).int("axis", 1)
    2
    """

    def __init__(self, op: OperatorDef) -> None:
        self._op = op
        self._known = {arg.name: arg for arg in op.arg}

    def has(self, name: str) -> bool:
        """Tell whether the argument is there."""
        return name in self._known

    def is_string(self, name: str) -> bool:
        """Tell whether the argument is there and holds a string."""
        return name in self._known and self._known[name].HasField("s")

    def int(self, name: str, default: int | None = None) -> int:
        """Return an integer."""
        return self._get(name, default, "an integer", _integer)

    def bool(self, name: str, default: bool | None = None) -> bool:
        """Return a truth value, which is stored as 0 or 1."""
        return self._get(name, default, "0 or 1", _truth)

    def float(self, name: str, default: float | None = None) -> float:
        """Return a number."""
        return self._get(name, default, "a number", _number)

    def string(self, name: str, default: str | None = None) -> str:
        """Return a string."""
        return self._get(name, default, "a string", _string)

    def ints(self, name: str, default: Ints | None = None) -> Ints:
        """Return a list of integers, which a single one may stand for."""
        return self._get(name, default, "integers", _integers)

    def floats(self, name: str, default: Floats | None = None) -> Floats:
        """Return a list of numbers, which a single one may stand for."""
        return self._get(name, default, "numbers", _numbers)

    def strings(self, name: str, default: list[bytes] | None = None) -> list[bytes]:
        """Return a list of byte strings."""
        return self._get(name, default, "strings", lambda arg: list(arg.strings))

    def names(self, name: str, default: list[str] | None = None) -> list[str]:
        """Return a list of names of blobs."""
        return self._get(name, default, "names", lambda arg: [s.decode() for s in arg.strings])

    def net(self, name: str) -> NetDef:
        """Return a net."""
        return self._get(name, None, "a net", lambda arg: arg.n if arg.HasField("n") else None)

    def _get(
        self, name: str, default: T | None, kind: str, read: Callable[[Argument], T | None]
    ) -> T:
        if name not in self._known:
            if default is None:
                raise NetDefError(f"{label(self._op)} needs the argument '{name}', {kind}.")
            return default
        try:
            found = read(self._known[name])
        except UnicodeDecodeError:
            found = None
        if found is None:
            raise NetDefError(f"{label(self._op)}: its argument '{name}' must hold {kind}.")
        return found


def _integer(arg: Argument) -> int | None:
    if arg.HasField("i"):
        return arg.i
    return int(arg.f) if arg.HasField("f") and arg.f.is_integer() else None


def _truth(arg: Argument) -> bool | None:
    number = _integer(arg)
    return None if number is None else bool(number)


def _number(arg: Argument) -> float | None:
    if arg.HasField("f"):
        return arg.f
    return float(arg.i) if arg.HasField("i") else None


def _string(arg: Argument) -> str | None:
    return arg.s.decode() if arg.HasField("s") else None


def _integers(arg: Argument) -> list[int] | None:
    if arg.HasField("i"):
        return [arg.i]
    return None if arg.floats or arg.strings else list(arg.ints)


def _numbers(arg: Argument) -> list[float] | None:
    if arg.HasField("f"):
        return [arg.f]
    return None if arg.strings else [*arg.floats, *arg.ints]

"""Models of which some outputs are inputs of the next call: what they carry stays in the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from whileback.engines.arguments import Binder, Port, bind

__all__ = ["Carrying", "Kept", "Passed"]


class Kept(Protocol):
    """Carried values in an engine's memory.

    An engine's function offers them, if it can, as `keep(following, first)`, where `following`
    maps inputs to outputs, and `first` are arrays of which nobody else knows.
    """

    def run(self, arguments: dict[str, Any]) -> Sequence[Any]:
        """Run on the other inputs, carry on, and return the other outputs in order."""
        ...

    def read(self) -> dict[str, Any]:
        """Return what is carried, as arrays of the engine that hold until the next run."""
        ...

    def write(self, values: Mapping[str, Any]) -> None:
        """Carry other values, which are copied."""
        ...


class Passed:
    """Carried values that are passed as arguments, for whatever an engine cannot keep otherwise."""

    def __init__(
        self,
        run: Callable[[dict[str, Any]], Sequence[Any]],
        outputs: Sequence[str],
        following: Mapping[str, str],
        first: Mapping[str, Any],
    ) -> None:
        self._run, self._outputs, self._following = run, outputs, following
        self._values = dict(first)

    def run(self, arguments: dict[str, Any]) -> Sequence[Any]:
        """Run, and carry on."""
        out = dict(zip(self._outputs, self._run({**self._values, **arguments}), strict=True))
        self._values = {name: out[new] for name, new in self._following.items()}
        carried = set(self._following.values())
        return [value for name, value in out.items() if name not in carried]

    def read(self) -> dict[str, Any]:
        """Return what is carried."""
        return dict(self._values)

    def write(self, values: Mapping[str, Any]) -> None:
        """Carry other values."""
        self._values.update({name: copied(value) for name, value in values.items()})


class Carrying:
    """A model that carries values from call to call; `Compiled.carrying` makes it.

    Call it with the other inputs, get the other outputs. A call that fails carries nothing on.
    """

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Port],
        outputs: Sequence[str],
        following: Mapping[str, str],
        binder: Binder,
        kept: Kept,
    ) -> None:
        self.name = name
        self.inputs = {each: port for each, port in inputs.items() if each not in following}
        self.outputs = [each for each in outputs if each not in set(following.values())]
        self._carried = {each: inputs[each] for each in following}
        self._bind, self._kept = binder, kept

    def __call__(self, feeds: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Run the model on the other inputs and return the other outputs by name.

        Raises:
            ArgumentError: a name is unknown, missing or given twice; a type or shape is wrong.
            EngineError: the runtime failed.
        """
        given = self._bind(feeds or {}, named)
        return dict(zip(self.outputs, self._kept.run(given), strict=True))

    @property
    def values(self) -> dict[str, Any]:
        """What is carried, by input, as arrays of the engine: read them before the next call."""
        return self._kept.read()

    def carry(self, values: Mapping[str, Any]) -> None:
        """Let the next call begin with these values of some inputs, which are copied.

        Raises: ArgumentError for an unknown name, or a wrong type or shape.
        """
        self._kept.write(bind(self.name, self._carried, self._carried, values, {}))


def copied(value: Any) -> Any:
    """Return an array, or a list of arrays, that shares no memory."""
    if isinstance(value, list):
        return [copied(each) for each in value]
    return np.array(value, order="C")

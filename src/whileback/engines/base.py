"""What every engine has in common: the model it is given, and the callable that it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from whileback.engines.arguments import Port, bind

__all__ = ["Compiled", "Engine", "Source"]

Types = tuple[tuple[str, type, Any, Any], ...] | None


@dataclass(frozen=True)
class Source:
    """A model for an engine; `path` is the file that it came from unchanged, if there is one."""

    model: ir.Model
    path: Path | None = None

    @property
    def name(self) -> str:
        """The name for messages: the file, or else the graph."""
        return str(self.path) if self.path is not None else str(self.model.graph.name)


class Engine(Protocol):
    """What an engine's module must offer.

    `ARRAYS` are the types of arrays, beside NumPy's, that it takes as they are.
    """

    ARRAYS: tuple[type, ...]

    def load(self, source: Source, /, **options: Any) -> Callable[[dict[str, Any]], Sequence[Any]]:
        """Return a function from arguments by name to the outputs in order.

        Raises:
            EngineError: the runtime is missing, or refuses the model.
        """
        ...


class Compiled:
    """A model that is ready to run: call it with arrays, get arrays by output name.

    `f(x=x)`, or `f({"a/b:0": x})` for names that are no Python names, or both. `inputs` and
    `outputs` describe the signature; `defaults` names the inputs that may be left out.
    """

    def __init__(
        self,
        source: Source,
        run: Callable[[dict[str, Any]], Sequence[Any]],
        arrays: tuple[type, ...] = (),
    ) -> None:
        graph = source.model.graph
        self.name = source.name
        self.inputs = {str(value.name): Port.of(value) for value in graph.inputs}
        self.outputs = {str(value.name): Port.of(value) for value in graph.outputs}
        self.defaults = frozenset(name for name in self.inputs if name in graph.initializers)
        self._run, self._arrays = run, arrays
        self._checked: Types = None

    def __call__(
        self, feeds: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, np.ndarray | Any]:
        """Run the model and return its outputs by name, in order; sequences are lists of arrays.

        Raises:
            ArgumentError: a name is unknown, missing or given twice; a type or shape is wrong.
            EngineError: the runtime failed.
        """
        given = {**(feeds or {}), **named}
        types = _types(given) if len(given) == len(feeds or ()) + len(named) else None
        if types is None or types != self._checked:
            given = bind(self.name, self.inputs, self.defaults, feeds or {}, named, self._arrays)
            # Arrays of the same types pass at once the next time.
            self._checked = types if types == _types(given) else None
        return dict(zip(self.outputs, self._run(given), strict=True))

    def explain(self) -> str:
        """Return what the engine has compiled so far, and how large the stacks of loops are."""
        explain = getattr(self._run, "explain", None)
        return explain() if explain else f"{self.name!r} is run node by node: nothing is compiled."


def _types(arguments: Mapping[str, Any]) -> Types:
    """Return all that is checked of arrays, or None if some are of no type that is known."""
    try:
        return tuple((n, type(a), a.dtype, a.shape) for n, a in arguments.items())
    except AttributeError:
        return None

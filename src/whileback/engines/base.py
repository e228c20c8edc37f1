"""What every engine has in common: the model it is given, and the callable that it gives back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from whileback.engines.arguments import Binder, Port, Types, bind
from whileback.engines.carrying import Carrying, Passed, copied
from whileback.errors import ArgumentError, nearest

__all__ = ["Compiled", "Engine", "Source"]

Run = Callable[[dict[str, Any]], Sequence[Any]]


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
        run: Run,
        arrays: tuple[type, ...] = (),
    ) -> None:
        graph = source.model.graph
        self.name = source.name
        self.inputs = {str(value.name): Port.of(value) for value in graph.inputs}
        self.outputs = {str(value.name): Port.of(value) for value in graph.outputs}
        # A graph may return a value twice.
        self._results = [str(value.name) for value in graph.outputs]
        self.defaults = frozenset(name for name in self.inputs if name in graph.initializers)
        self._graph, self._run, self._arrays = graph, run, arrays
        self._bind = Binder(self.name, self.inputs, self.defaults, arrays)
        self._last: tuple[Types, Run] = None, run

    def __call__(
        self, feeds: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, np.ndarray | Any]:
        """Run the model and return its outputs by name, in order; sequences are lists of arrays.

        Raises:
            ArgumentError: a name is unknown, missing or given twice; a type or shape is wrong.
            EngineError: the runtime failed.
        """
        given, types = self._bind.typed(feeds or {}, named)
        before, run = self._last
        if types is None:
            run = self._run
        elif types is not before:
            run = self._prepared(given)
            self._last = types, run
        return dict(zip(self._results, run(given), strict=True))

    def _prepared(self, arguments: dict[str, Any]) -> Run:
        """Return what runs the model on arguments of the same types as these."""
        prepared = getattr(self._run, "prepared", None)
        return prepared(arguments) if prepared else self._run

    def carrying(
        self, following: Mapping[str, str], initial: Mapping[str, Any] | None = None
    ) -> Carrying:
        """Return the model as one whose outputs are its own inputs in the next call.

        What it carries stays in the engine's memory: ONNX Runtime reads it from one set of buffers
        and writes it to another one, XLA hands its arrays on. So training keeps parameters, and a
        decoder its cache.

        Args:
            following: by input, the output that is its value in the next call, as
                `whileback.names` has it for a step of training.
            initial: what these inputs are in the first call; those with a default may lack.

        Raises: ArgumentError for an unknown name, or a first value that is missing or of a wrong
            type or shape.

        >>> import onnx_ir as ir, whileback
        >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
        ...     add (float[2] x, float[2] total) => (float[2] sum, float largest)
        ...     { sum = Add(total, x) largest = ReduceMax<keepdims = 0>(sum) }''')
        >>> f = whileback.compile(model).carrying({"total": "sum"}, {"total": [0.0, 0.0]})
        >>> [f(x=[1.0, 2.0])["largest"].item() for _ in range(3)]
        [2.0, 4.0, 6.0]
        >>> f.values["total"].tolist()
        [3.0, 6.0]
        """
        _require_known(self.name, "input", following, self.inputs)
        _require_known(self.name, "output", following.values(), self.outputs)
        first = self._first(following, initial or {})
        keep = getattr(self._run, "keep", None)
        kept = keep(following, first) if keep else None
        kept = kept or Passed(self._run, list(self.outputs), following, first)
        others = {name: port for name, port in self.inputs.items() if name not in following}
        binder = Binder(self.name, others, self.defaults, self._arrays)
        return Carrying(self.name, self.inputs, list(self.outputs), following, binder, kept)

    def _first(self, following: Mapping[str, str], initial: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of the first values of what is carried."""
        given = dict(initial)
        for name, value in self._graph.initializers.items():
            if name in following and name not in given and value.const_value is not None:
                given[name] = value.const_value.numpy()
        carried = {name: self.inputs[name] for name in following}
        bound = bind(self.name, carried, (), given, {})
        return {name: copied(bound[name]) for name in following}

    def explain(self) -> str:
        """Return what the engine has compiled so far, and how large the stacks of loops are."""
        explain = getattr(self._run, "explain", None)
        return explain() if explain else f"{self.name!r} is run node by node: nothing is compiled."


def _require_known(model: str, kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ArgumentError(f"Model {model!r} has no {kind} {name!r}; {nearest(name, known)}")

"""Derivatives of a model by finite differences on its float64 twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.checking.twin import float64_twin
from whileback.engines import Compiled, compile
from whileback.errors import ArgumentError, EngineError, nearest
from whileback.graph.names import Names
from whileback.graph.scopes import definitions
from whileback.graph.shapes import FLOATS

__all__ = ["Truth", "compile_exactly", "widened"]

Arrays = dict[str, np.ndarray]


def compile_exactly(model: ir.Model, feeds: Mapping[str, Any] | None = None) -> Compiled:
    """Compile the float64 twin, on NumPy where ONNX Runtime has no double kernel.

    Given the arguments that it will get, it can be for operators of unknown ranks as well.

    Raises:
        EngineError: neither engine can run it.
    """
    return _compile_twin(float64_twin(model, feeds))


def _compile_twin(twin: ir.Model) -> Compiled:
    try:
        return compile(twin, optimization="disabled", threads=1)
    except EngineError:
        return compile(twin, "reference")


def widened(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model as arguments of its twin."""
    return {
        name: [_widened(item) for item in value] if isinstance(value, list) else _widened(value)
        for name, value in feeds.items()
    }


def _widened(value: Any) -> Any:
    array = np.asarray(value)
    dtype = ir.DataType.from_numpy(array.dtype) if array.dtype.kind not in "OSUT" else None
    return array.astype(np.float64) if dtype in FLOATS else value


class Truth:
    """The values `of` of a model as a function of changes of the values `wrt`.

    It can be evaluated for operators of unknown ranks as well if the arguments, `feeds`, are given.
    Each value of `wrt`, be it an input, an initializer or a result of some node, is replaced
    by its sum with an extra input, so that all three kinds can be changed the same way.
    """

    def __init__(
        self,
        model: ir.Model,
        of: Sequence[str],
        wrt: Sequence[str],
        feeds: Mapping[str, Any] | None = None,
    ) -> None:
        twin = float64_twin(model, feeds)
        self.of, self.wrt = tuple(of), tuple(wrt)
        self._deltas = _insert_deltas(twin, self.of, self.wrt)
        self._compiled = _compile_twin(twin)

    def values(self, feeds: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
        """Return the values of `of` and those of `wrt`, unchanged."""
        results = list(self._run(widened(feeds), {}))
        count = len(self.of)
        return (
            dict(zip(self.of, results[:count], strict=True)),
            dict(zip(self.wrt, results[count:], strict=True)),
        )

    def along(
        self,
        feeds: Mapping[str, Any],
        cotangents: Mapping[str, np.ndarray],
        name: str,
        direction: np.ndarray,
    ) -> Callable[[float], float]:
        """Return Σ cotangent·of as a function of how far the value is moved along a direction.

        Where that changes a shape, as the end of a `Range` can, it is no number; nor where then
        nothing fits any more.
        """
        wide = widened(feeds)
        weights = [np.asarray(cotangents[name], np.float64) for name in self.of]

        def projected(step: float) -> float:
            try:
                results = self._run(wide, {name: step * direction})
            except EngineError:
                return np.nan
            if any(w.shape != np.shape(v) for w, v in zip(weights, results, strict=False)):
                return np.nan
            return float(sum(np.vdot(w, v) for w, v in zip(weights, results, strict=False)))

        return projected

    def _run(self, feeds: Mapping[str, Any], changes: Mapping[str, np.ndarray]) -> list[Any]:
        zero = np.zeros(())
        deltas = {delta: changes.get(name, zero) for name, delta in self._deltas.items()}
        return list(self._compiled({**feeds, **deltas}).values())


def _insert_deltas(model: ir.Model, of: Sequence[str], wrt: Sequence[str]) -> dict[str, str]:
    """Add an input to each of `wrt`, and make `of`, then the unchanged `wrt`, the outputs."""
    graph, names = model.graph, Names.of(model.graph)
    known = {str(value.name): value for value in definitions(graph)}
    for name in (*of, *wrt):
        if name not in known:
            raise ArgumentError(f"The model has no value {name!r}; {nearest(name, known)}")
    deltas, changed = {}, {}
    for name in wrt:
        changed[name], deltas[name] = _insert_delta(graph, known[name], names)
    results = [changed.get(name, known[name]) for name in of] + [known[name] for name in wrt]
    copies = [ir.node("Identity", [value], name=names.fresh("result")) for value in results]
    graph.extend(copies)
    graph.outputs.clear()
    for value, copy in zip(results, copies, strict=True):
        output = copy.outputs[0]
        output.name, output.type = names.fresh(f"{value.name}_result"), value.type
        graph.outputs.append(output)
    return deltas


def _insert_delta(graph: ir.Graph, value: ir.Value, names: Names) -> tuple[ir.Value, str]:
    """Let everything read the sum of the value and a new input."""
    delta = ir.Value(name=names.fresh(f"{value.name}_delta"), type=value.type)
    graph.inputs.append(delta)
    add = ir.node("Add", [value, delta], name=names.fresh("add_delta"))
    total = add.outputs[0]
    total.name, total.type = names.fresh(f"{value.name}_changed"), value.type
    total.shape = value.shape
    value.replace_all_uses_with(total, replace_graph_outputs=True)
    add.replace_input_with(0, value)
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, add)
    elif len(graph):
        graph.insert_before(graph[0], add)
    else:
        graph.append(add)
    return total, str(delta.name)

"""A model in the engine's normal form, and the programs that are compiled for its runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.accumulate import find_sums
from whileback.engines.xla.delayed import find_delayed
from whileback.engines.xla.facts import Trace
from whileback.engines.xla.interpret import Scope, domain_of, exact, is_control, run_graph
from whileback.engines.xla.ports import put_together, taken_apart
from whileback.engines.xla.refusal import not_known_length
from whileback.engines.xla.registry import lowerings
from whileback.engines.xla.rows import Rows
from whileback.engines.xla.sharding import at_once
from whileback.engines.xla.specialize import Specializer
from whileback.engines.xla.spread import Spread
from whileback.errors import EngineError
from whileback.graph.normalize import normalize
from whileback.graph.randomness import draws
from whileback.graph.scopes import walk

__all__ = ["CHANCE", "Model"]

# An argument beside the model's: words of chance, which random numbers are made of.
CHANCE = ""

Run = Callable[[Mapping[str, Any]], Sequence[Any]]

_STRING = ir.DataType.STRING

# Larger constants go into the program as arguments: XLA takes long to compile large ones.
_INLINE = 1024


class Model:
    """A model in normal form, and its programs."""

    def __init__(self, name: str, model: ir.Model) -> None:
        self.name, self.graph = name, model.graph
        self._sums, self._delayed = find_sums(model.graph), find_delayed(model.graph)
        self._draws = any(draws(node) for node in walk(model.graph))
        self._wide = {
            str(value.name): np.dtype(value.dtype.numpy())
            for value in model.graph.inputs
            if value.dtype is not None and value.dtype.numpy() in ("int64", "uint64", "float64")
        }
        self._constants: dict[str, np.ndarray] = {}
        with jax.enable_x64(True):
            self._weights = {}
            for name, value in model.graph.initializers.items():
                assert value.const_value is not None
                array = value.const_value.numpy()
                if array.size <= _INLINE:
                    self._constants[name] = array
                else:
                    self._weights[name] = jnp.asarray(array)
        self._programs = Specializer(self._trace)
        self._spread: Spread | None = None
        self._generator = np.random.default_rng()

    @classmethod
    def of(cls, name: str, source: ir.Model) -> Model:
        """Bring a model to the normal form; `name` is for messages.

        Raises:
            EngineError: it has operators that the engine does not know; the message lists all.
        """
        model = normalize(source, needs_expansion=lambda node: not _is_lowered(node))
        _require_lowered(name, model.graph)
        return cls(name, model)

    def words_of_chance(self) -> dict[str, np.ndarray]:
        """Return what a run needs beside the arguments if it draws random numbers."""
        if not self._draws:
            return {}
        return {CHANCE: self._generator.integers(2**32, size=2, dtype=np.uint32)}

    def spending(self, names: Collection[str]) -> Model:
        """Return the model as one that writes outputs over these arguments, see `Specializer`."""
        other = copy(self)
        other._programs = Specializer(self._trace, names)
        return other

    def over(self, mesh: Any) -> Model:
        """Return the model as one that works on the devices of a mesh, see `Spread`.

        Raises:
            ArgumentError: `mesh` is no mesh of JAX's.
            EngineError: the model draws, and processes would draw other numbers.
        """
        other = copy(self)
        spread = other._spread = Spread(mesh, self.graph)
        if self._draws and spread.over_processes:
            raise EngineError(
                f"Model {self.name!r} draws random numbers, of which each process of the mesh has "
                "others. A step of training draws the same in all: whileback.training.step()."
            )
        with jax.enable_x64(True):
            other._weights = spread.placed(self._weights)
        other._programs = Specializer(other._trace)
        return other

    def run(self, arguments: Mapping[str, Any]) -> Sequence[Any]:
        """Run the model; the outputs are JAX's arrays, or lists of them, or `ABSENT`.

        It draws its words of chance if it needs some and the arguments have none.
        """
        words = {} if CHANCE in arguments else self.words_of_chance()
        with at_once():
            try:
                arrays = self._placed({**arguments, **words})
                return self._programs.prepared(arrays)(list(arrays.values()))
            except RuntimeError as error:
                raise EngineError(_failed(self.name, str(error))) from error

    def prepared(self, arguments: Mapping[str, Any]) -> Run:
        """Return what `run` does for arguments of the same types and shapes as these."""
        with at_once():
            arrays = self._arrays(arguments)
        weights = list(self._weights.values())
        given = [*weights, *arguments.values()]
        is_plain = len(given) == len(arrays) and all(map(operator.is_, given, arrays.values()))
        if not is_plain or self._draws or self._spread is not None:
            return self.run
        run = self._programs.prepared(arrays)

        def again(arguments: Mapping[str, Any]) -> Sequence[Any]:
            with at_once():
                try:
                    return run([*weights, *arguments.values()])
                except RuntimeError as error:
                    raise EngineError(_failed(self.name, str(error))) from error

        return again

    def explain(self) -> str:
        """Tell which programs were compiled, and how large their stacks are."""
        inputs = {str(value.name) for value in self.graph.inputs}
        own = {CHANCE, *self._weights} - inputs
        return f"{self.name!r} on XLA:\n{self._programs.explain(own)}"

    def text(self, arguments: Mapping[str, Any]) -> str:
        """Return, in XLA's own form, the optimized program that last ran on such arguments."""
        with at_once():
            return self._programs.text(self._placed(arguments))

    def trace(self, arguments: Mapping[str, Any], trace: Trace) -> Sequence[Any]:
        """Trace the model; `trace` has what is known of the run."""
        return self._trace(self._arrays(arguments), trace)

    def _arrays(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arrays of a program by name; for 64 bits, JAX's may have been given in 32."""
        given = dict(arguments)
        for name, dtype in self._wide.items():
            if name in given and getattr(given[name], "dtype", None) != dtype:
                given[name] = jax.tree.map(
                    lambda leaf, dtype=dtype: leaf.astype(dtype), given[name]
                )
        return {**self._weights, **taken_apart(given)}

    def _placed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        arrays = self._arrays(arguments)
        return arrays if self._spread is None else self._spread.placed(arrays)

    def _trace(self, arguments: Mapping[str, Any], trace: Trace) -> Sequence[Any]:
        graph, scope = self.graph, Scope()
        trace.chance = arguments.get(CHANCE)
        trace.sums, trace.delayed = self._sums, self._delayed
        for name, value in graph.initializers.items():
            given = arguments.get(name)
            scope.define([value], [self._constants[name] if given is None else given], trace)
        for value in graph.inputs:
            if (given := put_together(str(value.name), value.type, arguments)) is not None:
                scope.define([value], [given], trace)
        outputs = run_graph(graph, scope, trace)
        for value, output in zip(graph.outputs, outputs, strict=True):
            if isinstance(output, Rows) and not trace.can_end:
                raise not_known_length(self.name, f"output {value.name!r}")
        results = [exact(trace, output) for output in outputs]
        return results if self._spread is None else self._spread.whole(results)


def _require_lowered(name: str, graph: ir.Graph) -> None:
    """Refuse a model with anything that the engine does not know, and list it all.

    Raises: EngineError.
    """
    nodes = list(walk(graph))
    inputs = [f"input {each.name!r}" for each in graph.inputs if each.dtype is _STRING]
    strings = sorted({_operator(node) for node in nodes if _has_text(node)}) or inputs
    unknown = sorted({_operator(node) for node in nodes if not _is_lowered(node)})
    reasons = []
    if strings:
        found = ", ".join(strings)
        reasons.append(f"strings, of which XLA has none, go into or come from {found}")
    if unknown:
        reasons.append(f"it has no lowering for {', '.join(unknown)}")
    if reasons:
        raise EngineError(
            f"The engine 'xla' cannot run model {name!r}: {'; '.join(reasons)}. Run it with "
            "engine='onnxruntime'."
        )


def _is_lowered(node: ir.Node) -> bool:
    return is_control(node) or (domain_of(node), node.op_type) in lowerings()


def _has_text(node: ir.Node) -> bool:
    """Tell whether a node reads or makes strings."""
    values = (*node.inputs, *node.outputs)
    return any(value is not None and value.dtype is _STRING for value in values)


def _failed(name: str, reason: str) -> str:
    """Return what to say where XLA has failed to compile or to run a program."""
    remedy = ""
    if reason.startswith("RESOURCE_EXHAUSTED"):
        remedy = " Give it smaller arrays; a gradient keeps less with memory='checkpoint'."
    if "has been deleted" in reason:
        remedy = " A function that donates it, or a step that carries it, has it now: pass a copy."
    return f"XLA failed to run model {name!r}: {reason.partition(chr(10))[0].rstrip('.')}.{remedy}"


def _operator(node: ir.Node) -> str:
    return f"{node.domain or 'ai.onnx'}::{node.op_type}"

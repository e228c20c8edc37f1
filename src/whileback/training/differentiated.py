"""A model with its losses and their gradients, from which steps are made."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, WhilebackWarning
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.straight_through import function_of
from whileback.gradient.transform import NAMES_KEY, Quantized, gradient, names
from whileback.graph.builder import Builder
from whileback.graph.cleanup import clean, prune
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes, forget_symbolic_data
from whileback.training.attaching import Attached, attach, define_functions
from whileback.training.defaults import default
from whileback.training.interface import Interface
from whileback.training.lora import ADAPTERS, has_adapters
from whileback.training.losses import Loss, losses_listed
from whileback.training.parameters import fitted, listed, tensors_held, trained
from whileback.training.precision import Precision, masters, narrow
from whileback.training.quantization import check_whole_numbers, quantized_masters
from whileback.training.randomness import (
    Dropping,
    Randomness,
    draw_by_counting,
    hides_draws,
    set_dropout,
)
from whileback.training.statistics import (
    Statistics,
    normalize_by,
    running_statistics,
)
from whileback.training.unfusing import unfuse

__all__ = ["Differentiated", "differentiated"]

_AS_ALWAYS: Mapping[ir.Value, str] = {}


def differentiated(
    model: ir.Model,
    loss: str | Loss | Sequence[str | Loss],
    trainable: str | Sequence[str] | None,
    memory: Memory,
    dropout: Dropping = None,
    precision: Precision | None = None,
    quantized: Quantized = None,
    statistics: Statistics = "batch",
) -> Differentiated:
    """Return a model with the gradients of its losses. For arguments and errors see `step`."""
    losses = losses_listed(loss)
    _require_model(model)
    base = normalize(model, needs_expansion=hides_draws)
    op = _builder(base.graph)
    if trainable is None and has_adapters(model):
        trainable = ADAPTERS
    patterns = None if trainable is None else listed(trainable)
    if quantized is not None:
        _warn_unless_rounded(base.graph)
        check_whole_numbers(base.graph, patterns or ())
        quantized_masters(op, lambda name: patterns is None or bool(fitted(patterns, [name])))
    held = tensors_held(base.graph)
    set_dropout(op, dropout)
    randomness = draw_by_counting(op, ahead=memory is None)
    own = set(walk(base.graph))
    unfuse(op)
    running = running_statistics(base.graph)
    following = normalize_by(op, statistics)
    scale = precision.scale if precision is not None and precision.scales else None
    attached = attach(op, losses, scale)
    define_functions(base, losses)
    if precision is not None:
        narrow(op, precision.type, own)
    halves = precision is not None
    parameters = trained(base.graph, held, attached.loss, patterns, running, halves)
    parameters = masters(op, parameters)
    work = Differentiated(base, attached, following, parameters, memory, quantized)
    work.count(randomness)
    return work


def _warn_unless_rounded(graph: ir.Graph) -> None:
    """Tell that there is nothing to be differentiated as if it was not rounded."""
    if not any(function_of(node) for node in walk(graph)):
        warnings.warn(
            "quantized= (--quantized) changes nothing: the model has no operator that rounds, such "
            "as QuantizeLinear.",
            WhilebackWarning,
            stacklevel=4,
        )


def _require_model(model: object) -> None:
    if not isinstance(model, ir.Model):
        raise ArgumentError(
            f"model= is {type(model).__name__!r}, but a step is made of an onnx_ir.Model. Read a "
            "file with whileback.load(path), a ModelProto with onnx_ir.from_proto(model)."
        )


def _builder(graph: ir.Graph) -> Builder:
    shapes = Shapes(graph.opset_imports)
    shapes.reserve(graph)
    return Builder(graph, Names.of(graph), shapes)


class Differentiated:
    """A model with its gradients, on its way to a step.

    Attributes:
        op: emits at the end of its graph.
        parameters: what is trained, inputs with defaults, and the gradient of each.
        statistics: running statistics of the data, inputs with defaults.
        state: what else is kept between steps, inputs with defaults.
        next: what each of these is in the next step.
        seed: the input that decides what is drawn at random.
        scale: the input by which the loss is scaled of which these are gradients.
    """

    def __init__(
        self,
        base: ir.Model,
        attached: Attached,
        statistics: dict[ir.Value, ir.Value],
        parameters: list[ir.Value],
        memory: Memory,
        quantized: Quantized,
    ) -> None:
        graph = base.graph
        graph.inputs.extend(value for value in statistics if not value.is_graph_input())
        graph.outputs.clear()
        results = [attached.loss, attached.objective, *attached.parts, *statistics.values()]
        graph.outputs.extend(dict.fromkeys(results))
        prune(graph)
        given_symbols(graph)
        wrt = [str(value.name) for value in parameters]
        self.model = gradient(
            base, str(attached.objective.name), wrt, quantized=quantized, memory=memory
        )
        graph = self.graph = self.model.graph
        values = {str(value.name): value for value in (*graph.inputs, *graph.outputs)}
        slopes = names(self.model)
        self.parameters = {values[name]: values[slopes[name]] for name in wrt}
        self.next = {values[str(old.name)]: values[str(v.name)] for old, v in statistics.items()}
        self.statistics = list(self.next)
        self.results = [values[str(v.name)] for v in (attached.loss, *attached.parts)]
        self.said = attached.said
        graph.outputs.clear()
        self.op = _builder(graph)
        self.state: list[ir.Value] = []
        self.seed: str | None = None
        self.scale = None if attached.scale is None else self._adopted(attached.scale)

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> ir.Value:
        """Return a new input of the model."""
        value = ir.Value(name=self.op.names.fresh(name), type=ir.TensorType(dtype))
        value.shape = ir.Shape(shape)
        self.graph.inputs.append(value)
        return value

    def default(self, name: str, first: np.ndarray) -> ir.Value:
        """Return a new input of the model with a default."""
        return default(self.op, name, first)

    def keep(self, name: str, first: np.ndarray) -> ir.Value:
        """Return an input for what is kept between steps, with its first value as default."""
        value = self.default(name, first)
        self.state.append(value)
        return value

    def _adopted(self, value: ir.Value) -> ir.Value:
        """Keep an input that the model had before its gradient."""
        found = next(each for each in self.graph.inputs if each.name == value.name)
        self.state.append(found)
        return found

    def count(self, randomness: Randomness | None) -> None:
        """Let the next call draw other numbers."""
        if randomness is None:
            return
        self.seed = str(randomness.seed.name)
        calls = self._adopted(randomness.calls)
        self.op.role, self.op.origin = "count", ir.node("Calls", [], name=str(calls.name))
        self.next[calls] = self.op.Add(calls, 1)

    def finish(self, called: Mapping[ir.Value, str] = _AS_ALWAYS, **known: Any) -> ir.Model:
        """Name the outputs, complete the metadata, and clean up.

        Args:
            called: how that is called which a value becomes, where that is not `<name>_next`.
            known: what else the `Interface` tells.
        """
        graph, taken = self.graph, self.op.names
        order = [*self.parameters, *self.statistics, *self.state]
        for old in order:
            name = called.get(old, f"{old.name}_next")
            if self.next[old].name != name:
                self.next[old].name = taken.fresh(name)
        graph.outputs.extend([*self.results, *(self.next[old] for old in order)])
        following = {str(old.name): str(self.next[old].name) for old in order}
        self.model.metadata_props[NAMES_KEY] = json.dumps(following, ensure_ascii=False)
        said = self.results[-len(self.said) :]
        Interface(
            loss=str(self.results[0].name),
            losses={str(v.name): text for v, text in zip(said, self.said, strict=True)},
            parameters=[str(value.name) for value in self.parameters],
            statistics=[str(value.name) for value in self.statistics],
            state=[str(value.name) for value in self.state],
            seed=self.seed,
            scale=None if self.scale is None else str(self.scale.name),
            **known,
        ).write(self.model)
        forget_symbolic_data(graph)
        given_symbols(graph)
        clean(self.model)
        return self.model

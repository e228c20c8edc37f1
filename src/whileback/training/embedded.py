"""`embedded`: a model as a part of somebody else's program, with its parameters as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.gradient.derivation import derivation
from whileback.graph.builder import Builder
from whileback.graph.cleanup import clean, prune
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.shapes import FLOATS, Shapes, forget_symbolic_data
from whileback.training.parameters import listed, tensors_held, trainable_for
from whileback.training.randomness import (
    Dropping,
    draw_by_counting,
    hides_draws,
    set_dropout,
)
from whileback.training.statistics import running_statistics, settle_statistics, train_statistics

__all__ = ["Embedded", "embedded"]


Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Embedded:
    """A model whose parameters and running statistics are inputs without defaults.

    Attributes:
        model: in normal form. Its outputs are the model's own, then what the statistics become.
        inputs: the model's own inputs, in their order.
        outputs: the model's own outputs, in their order.
        parameters: by input, the model's float tensors that have gradients.
        statistics: by input, the running statistics of `BatchNormalization`.
        following: by statistic, the output that it becomes; empty outside of training.
        seed: the input INT64[], by default 0, that decides what is drawn; None if nothing is.
    """

    model: ir.Model
    inputs: list[str]
    outputs: list[str]
    parameters: Arrays
    statistics: Arrays
    following: dict[str, str]
    seed: str | None


@derivation
def embedded(
    model: ir.Model,
    trainable: str | Sequence[str] | None = None,
    *,
    training: bool = False,
    dropout: Dropping = None,
) -> Embedded:
    """Return a model as a part of somebody else's program.

    Args:
        model: stays as it is.
        trainable: patterns of the names of tensors that become parameters, as for `step`; None
            stands for all that `step` would train.
        training: whether `BatchNormalization` normalizes by the batch, as in `step`; otherwise it
            does by its running statistics.
        dropout: in training, which `Dropout` nodes drop, as for `step`; otherwise none do.

    Raises: ArgumentError for a pattern that fits nothing.
    """
    base = normalize(model, needs_expansion=hides_draws)
    work = _Embedding(base.graph, trainable)
    seed = work.settle(training, dropout)
    own = [str(value.name) for value in base.graph.outputs]
    following = work.add_outputs()
    parameters, statistics = work.take_out()
    prune(base.graph)
    forget_symbolic_data(base.graph)
    given_symbols(base.graph)
    clean(base)
    return Embedded(base, work.inputs, own, parameters, statistics, following, seed)


class _Embedding:
    """A graph in normal form on its way to a part of another program."""

    def __init__(self, graph: ir.Graph, trainable: str | Sequence[str] | None) -> None:
        self.graph, held = graph, tensors_held(graph)
        shapes = Shapes(graph.opset_imports)
        shapes.reserve(graph)
        self.op = Builder(graph, Names.of(graph), shapes)
        self.inputs = [str(value.name) for value in graph.inputs if value.name not in held]
        self.statistics = running_statistics(graph)
        patterns = None if trainable is None else listed(trainable)
        targets = [value for value in graph.outputs if value.dtype in FLOATS]
        self.parameters = trainable_for(graph, held, targets, patterns, self.statistics)
        self._updates: dict[ir.Value, ir.Value] = {}

    def settle(self, training: bool, dropout: Dropping) -> str | None:
        """Let the model behave as in training or not; return the input that decides draws."""
        set_dropout(self.op, dropout if training else False)
        randomness = draw_by_counting(self.op)
        if training:
            self._updates = train_statistics(self.op)
        else:
            settle_statistics(self.graph)
        return None if randomness is None else str(randomness.seed.name)

    def add_outputs(self) -> dict[str, str]:
        """Make outputs of what the running statistics become."""
        for old, new in self._updates.items():
            new.name = self.op.names.fresh(f"{old.name}_next")
        self.graph.outputs.extend(self._updates.values())
        return {str(old.name): str(new.name) for old, new in self._updates.items()}

    def take_out(self) -> tuple[Arrays, Arrays]:
        """Make inputs without defaults of parameters and statistics; return their numbers."""
        return self._taken(self.parameters), self._taken(self.statistics)

    def _taken(self, values: Sequence[ir.Value]) -> Arrays:
        arrays = {}
        for value in values:
            assert value.const_value is not None
            arrays[str(value.name)] = value.const_value.numpy()
            del self.graph.initializers[str(value.name)]
            value.const_value = None
            if not value.is_graph_input():
                self.graph.inputs.append(value)
        return arrays

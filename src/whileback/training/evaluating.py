"""`evaluation`: from a model to what tells how well the parameters of a step do."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.graph.builder import Builder
from whileback.graph.cleanup import clean, prune
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.shapes import FLOATS, Shapes, forget_symbolic_data
from whileback.signatures import require_types
from whileback.training.attaching import attach, define_functions
from whileback.training.flat import join
from whileback.training.interface import interface
from whileback.training.losses import Loss, losses_listed
from whileback.training.precision import masters
from whileback.training.quantization import quantized_masters
from whileback.training.randomness import hides_draws, set_dropout
from whileback.training.statistics import settle_statistics

__all__ = ["evaluation"]


def evaluation(
    model: ir.Model, loss: str | Loss | Sequence[str | Loss], step: ir.Model
) -> ir.Model:
    """Return a model that computes losses and outputs for the parameters of a step.

    Its inputs are the model's own, the labels of the losses, and, with their first values as
    defaults, the parameters and running statistics of the step, under their names there. Its
    outputs are the losses, as the step has them, and the model's own. Nothing is as in training:
    `Dropout` drops nothing, and `BatchNormalization` normalizes by the running statistics.

    Args:
        model: computes predictions, and is what the step was made of; it stays as it is.
        loss: as for `step`.
        step: what `step` made of the model.

    Raises: ArgumentError for a loss that is unknown or does not fit its output, and for a step of
        another model.

    >>> import onnx_ir as ir, whileback
    >>> from whileback import training
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> step = training.step(model, "mse", "sgd")
    >>> f = whileback.compile(training.evaluation(model, "mse", step))
    >>> {name: out.tolist() for name, out in f(x=[[1.0]], label=[[3.0]], w=[[2.0]]).items()}
    {'loss': 1.0, 'y': [[2.0]]}
    """
    require_types(evaluation, locals(), but=("loss",))
    base, losses = normalize(model, needs_expansion=hides_draws), losses_listed(loss)
    graph = base.graph
    op = _settled(graph)
    outputs = list(graph.outputs)
    attached = attach(op, losses)
    define_functions(base, losses)
    graph.outputs[:] = dict.fromkeys([attached.loss, *attached.parts, *outputs])
    _add_inputs(op, step)
    prune(graph)
    forget_symbolic_data(graph)
    given_symbols(graph)
    clean(base)
    return base


def _settled(graph: ir.Graph) -> Builder:
    """Let a graph do nothing as in training; return what emits at its end."""
    shapes = Shapes(graph.opset_imports)
    shapes.reserve(graph)
    op = Builder(graph, Names.of(graph), shapes)
    set_dropout(op, False)
    settle_statistics(graph)
    return op


def _add_inputs(op: Builder, step: ir.Model) -> None:
    """Make inputs of what the step trains or updates, in the types that it has there."""
    known, graph = interface(step), op.graph
    types = {value.name: value.dtype for value in step.graph.inputs}
    types |= {part.name: types[known.parameters[0]] for part in known.flat}
    quantized_masters(op, lambda name: types.get(name) in FLOATS)
    parameters = [part.name for part in known.flat] or known.parameters
    for name in (*parameters, *known.statistics):
        if name not in graph.initializers:
            raise ArgumentError(
                f"Model '{graph.name}' has no parameter '{name}', which step '{step.graph.name}' "
                "has. Give the model that the step was made of."
            )
    found = masters(op, [graph.initializers[name] for name in parameters])
    everything = [*found, *(graph.initializers[name] for name in known.statistics)]
    graph.inputs.extend(value for value in everything if not value.is_graph_input())
    if known.flat:
        join(op, known.parameters[0], found)

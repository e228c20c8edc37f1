"""`step`: from a model to the model of one step of its training."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.transform import NAMES_KEY, collector_paused, gradient, names
from whileback.graph.builder import Builder
from whileback.graph.cleanup import clean, prune
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.shapes import Shapes, forget_symbolic_data, static_shape
from whileback.training.attaching import Attached, attach
from whileback.training.interface import Interface
from whileback.training.losses import Loss, loss_named
from whileback.training.optimizers import Clock, Optimizer, State, optimizer_named
from whileback.training.parameters import fitting, listed, tensors_held, trained
from whileback.training.statistics import train_statistics

__all__ = ["step"]


@collector_paused()
def step(
    model: ir.Model,
    loss: str | Loss | Sequence[str | Loss],
    optimizer: str | Optimizer,
    trainable: str | Sequence[str] | None = None,
    *,
    no_decay: str | Sequence[str] = (),
    clip_norm: float | None = None,
    clip_value: float | None = None,
    memory: Memory = None,
) -> ir.Model:
    """Return a model that makes one step of training: parameters and a batch in, parameters out.

    Its inputs are the model's own, the labels of the losses, `learning_rate` FLOAT[], and, with
    their first values as defaults, the parameters, the running statistics of
    `BatchNormalization`, the optimizer's state `<parameter>_<part>`, and the number of `steps`
    made, where something depends on that. Its outputs are `loss`, with several losses each of them
    times its weight, `loss_0`, `loss_1` …, and then for each input that has changed what it is
    next, `<input>_next`, which `whileback.names` maps: outputs of one call are inputs of the next.
    What else the inputs and outputs are, `interface` tells. `BatchNormalization` of the main
    graph normalizes by the batch; `Dropout` does what the model says, which is nothing in one
    that was exported for inference.

    Args:
        model: computes predictions; it stays as it is.
        loss: a name in `LOSSES`, a loss with settings, or several, whose weighted sum is made
            smaller.
        optimizer: a name in `OPTIMIZERS`, or one with settings.
        trainable: patterns of the names of initializers and constants (`"*.weight"`); those in a
            subgraph are called `node/branch/name`. By default all float ones of at least one axis
            on which a loss depends, but for running statistics and settings of operators, such as
            the bounds of `Clip`. What is not trained stays as it is in the model.
        no_decay: patterns of the names of parameters without weight decay.
        clip_norm: if all gradients together have a longer norm than this, they are scaled to it.
        clip_value: every element of a gradient is cut to ± this; before `clip_norm`.
        memory: as for `whileback.gradient`.

    Raises:
        ArgumentError: a name or a pattern is unknown, or a loss does not fit its output.
        NoGradientError: operators on the way have no rule; all of them are listed.
        UnsupportedError: a parameter is FLOAT16 or BFLOAT16.

    >>> import onnx_ir as ir, whileback
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> trained = step(model, "mse", "sgd")
    >>> f, feeds = whileback.compile(trained), {}
    >>> for _ in range(20):
    ...     out = f(feeds, x=[[1.0], [2.0]], label=[[3.0], [6.0]], learning_rate=0.1)
    ...     feeds = {name: out[new] for name, new in whileback.names(trained).items()}
    >>> feeds["w"].round(3).tolist()
    [[3.0]]
    """
    chosen, losses = optimizer_named(optimizer), _listed(loss)
    _check_limits(clip_norm=clip_norm, clip_value=clip_value)
    if not isinstance(model, ir.Model):
        raise ArgumentError(
            f"step() takes an onnx_ir.Model, but got {type(model).__name__!r}. Read a file with "
            "whileback.load(path), a ModelProto with onnx_ir.from_proto(model)."
        )
    base = normalize(model)
    op, held = _builder(base.graph), tensors_held(base.graph)
    statistics = train_statistics(op)
    attached = attach(op, losses)
    functions = [each.function for each in losses if each.function is not None]
    base.functions.update({function.identifier(): function for function in functions})
    base.opset_imports.update({function.domain: 1 for function in functions})
    patterns = None if trainable is None else listed(trainable)
    parameters = trained(base.graph, held, attached.loss, patterns, statistics)
    undecayed = fitting(listed(no_decay), [str(value.name) for value in parameters], "no_decay")
    work = _Step(base, attached, statistics, parameters, memory)
    work.clip(clip_norm, clip_value)
    work.update(chosen, undecayed)
    return work.finish()


def _listed(loss: str | Loss | Sequence[str | Loss]) -> list[Loss]:
    several = [loss] if isinstance(loss, str | Loss) or loss is None else list(loss)
    if not several:
        raise ArgumentError("loss= is empty; give a name or a loss.")
    return [loss_named(each) for each in several]


def _check_limits(**limits: float | None) -> None:
    for name, limit in limits.items():
        if limit is not None and limit <= 0:
            raise ArgumentError(f"{name}={limit!r} is not above 0. Give a number above 0.")


def _builder(graph: ir.Graph) -> Builder:
    shapes = Shapes(graph.opset_imports)
    shapes.reserve(graph)
    return Builder(graph, Names.of(graph), shapes)


class _Step:
    """A model with its gradients on its way to a step."""

    def __init__(
        self,
        base: ir.Model,
        attached: Attached,
        statistics: dict[ir.Value, ir.Value],
        parameters: list[ir.Value],
        memory: Memory,
    ) -> None:
        graph = base.graph
        graph.inputs.extend(value for value in statistics if not value.is_graph_input())
        graph.outputs.clear()
        results = [attached.loss, *attached.parts, *statistics.values()]
        graph.outputs.extend(dict.fromkeys(results))
        prune(graph)
        given_symbols(graph)
        wrt = [str(value.name) for value in parameters]
        self.model = gradient(base, str(attached.loss.name), wrt, memory=memory)
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
        self.rate = self._input("learning_rate", ir.DataType.FLOAT, ())
        self.state: list[ir.Value] = []

    def _input(self, name: str, dtype: ir.DataType, shape: tuple[int, ...]) -> ir.Value:
        value = ir.Value(name=self.op.names.fresh(name), type=ir.TensorType(dtype))
        value.shape = ir.Shape(shape)
        self.graph.inputs.append(value)
        return value

    def _kept(
        self, name: str, dtype: ir.DataType, shape: tuple[int, ...], initial: float
    ) -> ir.Value:
        """Return an input for what is kept between steps, with its first value as default."""
        value = self._input(name, dtype, shape)
        first = np.full(shape, initial, dtype.numpy())
        value.const_value = ir.tensor(first, name=value.name)
        self.graph.register_initializer(value)
        self.state.append(value)
        return value

    def clip(self, norm: float | None, limit: float | None) -> None:
        """Cut the elements of gradients, then scale all of them together."""
        op = self.op
        op.role, op.origin = "clip", ir.node("Clip", [], name="gradients")
        for value, slope in self.parameters.items():
            if limit is not None:
                bounds = (op.constant(each, slope.dtype) for each in (-limit, limit))
                self.parameters[value] = op.Clip(slope, *bounds)
        if norm is None:
            return
        slopes = self.parameters.values()
        squares = [op.cast(op.ReduceSumSquare(g, keepdims=0), self.rate) for g in slopes]
        total = op.Sqrt(op.Sum(*squares))
        factor = op.Min(op.Div(norm, op.Add(total, 1e-6)), 1.0)
        for value, slope in self.parameters.items():
            self.parameters[value] = op.Mul(slope, op.cast(factor, slope))

    def update(self, optimizer: Optimizer, undecayed: Sequence[str]) -> None:
        """Emit the optimizer for every parameter; those named have no weight decay."""
        op, number = self.op, self.rate
        op.role = optimizer.name
        if optimizer.needs_number:
            made = self._kept("steps", ir.DataType.INT64, (), 0)
            op.origin = ir.node("Steps", [], name=str(made.name))
            self.next[made] = op.Add(made, 1)
            number = op.cast(self.next[made], ir.DataType.DOUBLE)
        clock = Clock(self.rate, number)
        for w, g in self.parameters.items():
            op.origin = ir.node("Parameter", [], name=str(w.name))
            before = self._state_of(optimizer, w)
            decays = w.name not in undecayed
            self.next[w], after = optimizer.apply(op, w, g, before, clock, decays)
            self.next |= {before[part]: value for part, value in after.items()}

    def _state_of(self, optimizer: Optimizer, w: ir.Value) -> State:
        shape, dtype = static_shape(w), w.dtype
        assert shape is not None and dtype is not None
        return {
            part: self._kept(f"{w.name}_{part}", dtype, size, optimizer.initial)
            for part, size in optimizer.shapes(shape).items()
        }

    def finish(self) -> ir.Model:
        """Name the outputs, complete the metadata, and clean up."""
        graph, taken = self.graph, self.op.names
        order = [*self.parameters, *self.statistics, *self.state]
        for old in order:
            self.next[old].name = taken.fresh(f"{old.name}_next")
        graph.outputs.extend([*self.results, *(self.next[old] for old in order)])
        following = {str(old.name): str(self.next[old].name) for old in order}
        self.model.metadata_props[NAMES_KEY] = json.dumps(following, ensure_ascii=False)
        said = self.results[-len(self.said) :]
        Interface(
            loss=str(self.results[0].name),
            learning_rate=str(self.rate.name),
            losses={str(v.name): text for v, text in zip(said, self.said, strict=True)},
            parameters=[str(value.name) for value in self.parameters],
            statistics=[str(value.name) for value in self.statistics],
            state=[str(value.name) for value in self.state],
        ).write(self.model)
        forget_symbolic_data(graph)
        given_symbols(graph)
        clean(self.model)
        return self.model

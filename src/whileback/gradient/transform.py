"""`gradient` and `vjp`: from a model to the model that computes its gradients as well."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import onnx_ir as ir

from whileback.errors import ArgumentError, WhilebackWarning
from whileback.gradient import rules as _registered  # noqa: F401
from whileback.gradient.activity import dependents, reaching
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.coverage import check_coverage
from whileback.gradient.derivation import derivation
from whileback.gradient.gradient_nodes import expand_gradients
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.rewrite import LoopOptions, prepare_loops
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.memory.truncation import Truncate
from whileback.gradient.registry import lookup
from whileback.gradient.selection import listed, refuse_optionals, select
from whileback.graph.cleanup import clean
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.optionals import unwrap_optionals
from whileback.graph.origin import is_new
from whileback.graph.printing import declared, dump
from whileback.graph.scopes import is_standard, walk
from whileback.graph.shapes import Shapes, forget_symbolic_data, static_shape
from whileback.graph.versions import LAST_WITHOUT_OUTPUT_DTYPE, OPSET, fits, limit_versions

__all__ = [
    "NAMES_KEY",
    "Quantized",
    "Transform",
    "gradient",
    "gradient_or_vjp",
    "names",
    "of_gradient",
    "vjp",
    "warn_of_zeros",
]

NAMES_KEY = "whileback.names"
Quantized = Literal["straight-through"] | None


@derivation
def gradient(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with the gradients of the sum of `of` with respect to each of `wrt`.

    Outputs of the result: the model's own, `of` where it is not among them, `<loop>_residual` of
    implicit loops, then one gradient `<name>_grad` of the value's type and shape for each of `wrt`,
    in their order. The model handed in stays as it is. For arguments and errors see
    `whileback.gradient`.
    """
    loops = LoopOptions(memory, truncate, implicit)
    work = Transform(model, listed(of), listed(wrt), quantized, loops, opset, ir_version)
    if reduce not in (None, "sum"):
        raise ArgumentError(f'reduce={reduce!r} is unknown; give reduce="sum" or leave it out.')
    for value in work.targets:
        if reduce is None and not _is_single(value):
            raise ArgumentError(
                f"of= names '{value.name}', which is {declared(value)}: gradient() needs one "
                'element. Say reduce="sum" (--reduce sum) to differentiate the sum of its '
                "elements, or use vjp() and pass the cotangent."
            )
    return work.run(work.ones())


@derivation
def vjp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with the vector-Jacobian products of `of` with respect to each of `wrt`.

    Like `gradient`, for values of any shape: the result has one more input `<name>_grad` for each
    of `of`, its cotangent, of the value's type and shape.
    """
    loops = LoopOptions(memory, truncate, implicit)
    work = Transform(model, listed(of), listed(wrt), quantized, loops, opset, ir_version)
    return work.run(work.add_seeds())


@derivation
def gradient_or_vjp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    quantized: Quantized = None,
    loops: LoopOptions | None = None,
) -> ir.Model:
    """Return the `gradient` where each of `of` has one element, else the `vjp`."""
    work = Transform(model, listed(of), listed(wrt), quantized, loops or LoopOptions(), None, None)
    return work.run(work.ones() if all(map(_is_single, work.targets)) else work.add_seeds())


def of_gradient(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None,
    quantized: Quantized,
    memory: Memory,
    truncate: Truncate,
    implicit: ImplicitLoops,
    loops: LoopOptions,
    opset: int | None,
    ir_version: int | None,
) -> Transform:
    """Return the model with its gradients on its way to derivatives of these; `loops` is for them.

    For the other arguments see `gradient`.
    """
    slopes = gradient(
        model,
        of,
        wrt,
        reduce=reduce,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
    )
    known, wrt = names(slopes), listed(wrt)
    gradients = [known[name] for name in wrt]
    return Transform(slopes, gradients, wrt, quantized, loops, opset, ir_version)


def names(model: ir.Model) -> Mapping[str, str]:
    """Return which output is the gradient of which value, and which input the cotangent of which.

    For a loop that is differentiated at its solution, `<loop>_residual` is among them as well.

    >>> names(gradient(model, of="loss", wrt=["w"]))  # doctest: +SKIP
    {'w': 'w_grad'}
    """
    known: dict[str, str] = json.loads(model.metadata_props.get(NAMES_KEY, "{}"))
    return known


def _dequantizes(graph: ir.Graph) -> bool:
    return any(is_standard(node, "DequantizeLinear") for node in walk(graph))


def _is_single(value: ir.Value) -> bool:
    """Tell whether the value is known to have one element."""
    return static_shape(value) in ((), (1,), (1, 1))


def warn_of_zeros(value: ir.Value) -> None:
    """Tell that nothing that is differentiated depends on a value."""
    warnings.warn(
        f"No value in of= depends on '{value.name}': its gradient is zero everywhere.",
        WhilebackWarning,
        stacklevel=7,
    )


class Transform:
    """One model on its way to its gradient, or to its tangents."""

    def __init__(
        self,
        model: ir.Model,
        of: list[str],
        wrt: list[str],
        quantized: Quantized,
        loops: LoopOptions,
        opset: int | None,
        ir_version: int | None,
    ) -> None:
        if quantized not in (None, "straight-through"):
            raise ArgumentError(
                f'quantized={quantized!r} is unknown; give quantized="straight-through" or leave '
                "it out."
            )
        # The caps hold for what the rules emit, too, so that they come last.
        self._caps = (opset, ir_version)
        self._was_old = model.opset_imports.get("", OPSET) <= LAST_WITHOUT_OUTPUT_DTYPE
        self.model = normalize(model, needs_expansion=lambda node: lookup(node) is None)
        refuse_optionals(self.model, of, "of")
        refuse_optionals(self.model, wrt, "wrt")
        unwrap_optionals(self.model.graph)
        expand_gradients(self.model)
        dump(self.model, "1-normalize")
        graph = self.model.graph
        self.shapes = Shapes(graph.opset_imports)
        self.shapes.reserve(graph)
        names = Names.of(graph)
        prepare_loops(graph, names, self.shapes, loops)
        self.targets = select(self.model, of, "of")
        self.sources = select(self.model, wrt, "wrt")
        active = dependents(graph, self.sources)
        active &= reaching(graph, self.targets, active)
        check_coverage(self.model, active, quantized is not None)
        self.op = GradientBuilder(graph, names, self.shapes, active)
        self.map: dict[str, str] = {}

    def ones(self) -> Cotangents:
        """Return ones as the cotangents of the targets."""
        op = self.op
        return {value: op.expand(op.constant(1, value.dtype), value) for value in self.targets}

    def add_seeds(self) -> Cotangents:
        """Add the cotangents of the targets to the model's inputs."""
        return self.add_inputs(self.targets, "grad")

    def add_inputs(self, values: Sequence[ir.Value], suffix: str) -> Cotangents:
        """Add an input to the model for each of the values, of its type and shape."""
        return {value: self._add_input(value, suffix) for value in values}

    def _add_input(self, value: ir.Value, suffix: str) -> ir.Value:
        name = self.op.names.fresh(f"{value.name}_{suffix}")
        seed = ir.Value(name=name, type=value.type, shape=value.shape)
        self.model.graph.inputs.append(seed)
        self.map[str(value.name)] = name
        return seed

    def run(self, seeds: Cotangents) -> ir.Model:
        """Emit the reverse pass, name its results, and clean up."""
        cotangents = dict(seeds)
        backward(self.op, list(self.model.graph), cotangents)
        self.add_targets()
        self.add_residuals()
        for value in self.sources:
            self._add_gradient(value, cotangents.get(value))
        return self.finish()

    def add_targets(self) -> None:
        """Make the targets outputs of the model."""
        self.op.origin = None
        outputs = self.model.graph.outputs
        outputs.extend(value for value in self.targets if value not in outputs)

    def add_residuals(self) -> None:
        """Make outputs of the model of how well the equations of implicit loops are solved."""
        for loop, residual in self.op.residuals.items():
            name = f"{loop}_residual"
            self.add_output(name, self.op.names.fresh(name), self._ours(residual))

    def _add_gradient(self, value: ir.Value, gradient: ir.Value | None) -> None:
        """Make the gradient of a value an output of the model."""
        if gradient is None:
            warn_of_zeros(value)
            gradient = self.op.zeros_like(value)
        result = self._ours(gradient)
        result.type, result.shape = value.type, value.shape
        self.add_output(str(value.name), self.op.names.fresh(f"{value.name}_grad"), result)

    def add_output(self, key: str, name: str, result: ir.Value) -> None:
        """Make a value an output of the model, of this name, which `names` gives for the key."""
        result.name = self.map[key] = name
        self.model.graph.outputs.append(result)

    def _ours(self, value: ir.Value) -> ir.Value:
        """Return the value if it is one of ours that has no other role, or else a copy."""
        producer = value.producer()
        own = producer is not None and producer.graph is self.model.graph and is_new(producer)
        return value if own and not value.is_graph_output() else self.op.Identity(value)

    def finish(self) -> ir.Model:
        """Complete the model's inputs and metadata, and clean up."""
        graph = self.model.graph
        for value in self.sources:
            if value.is_initializer() and not value.is_graph_input():
                graph.inputs.append(value)
        self.model.metadata_props[NAMES_KEY] = json.dumps(self.map, ensure_ascii=False)
        forget_symbolic_data(graph)
        given_symbols(graph)
        dump(self.model, "2-backward")
        clean(self.model)
        dump(self.model, "3-clean")
        limit_versions(self.model, *self._caps)
        lowers = self._caps[0] is None and self._was_old and _dequantizes(graph)
        if lowers and fits(graph, LAST_WITHOUT_OUTPUT_DTYPE):
            limit_versions(self.model, LAST_WITHOUT_OUTPUT_DTYPE, None)
        return self.model

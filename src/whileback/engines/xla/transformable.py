"""A model as a function that `jax.jit`, `jax.grad`, `jax.vmap` and the like transform.

Arguments that are known run at once, and again until the program fits, see `specialize`. Where
JAX traces them, nothing can run again, and a `ladder` serves. The derivatives are whileback's: a
gradient is a model of its own, and such a function, too, so that it has gradients as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero

from whileback.engines.xla.dependence import goes_one_way
from whileback.engines.xla.facts import NotStaticError, Trace
from whileback.engines.xla.ladder import CHECKPOINTED, ROOMS, Attempt
from whileback.engines.xla.model import Model
from whileback.engines.xla.optional import ABSENT
from whileback.engines.xla.primitive import Axes, bind
from whileback.engines.xla.refusal import not_known
from whileback.engines.xla.sharding import (
    as_before,
    at_once,
    in_type_of,
    is_spread,
    own_types,
    varying_alike,
    without_types,
)
from whileback.errors import EngineError
from whileback.gradient import vjp
from whileback.gradient.activity import connected
from whileback.gradient.memory.strategies import Memory

__all__ = ["Transformable"]

Arguments = Mapping[str, Any]
Run = Callable[[Arguments], Sequence[Any]]

# Smaller arrays of NumPy's are constants of a program that JAX traces: shapes may depend on them.
_SMALL = 1024
_HALVES = {
    np.dtype(wide): half
    for wide, half in (("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"))
}


@dataclass(frozen=True)
class Known:
    """What a call knows beforehand: some of the arguments, and whether JAX has 64 bits."""

    arguments: Arguments
    is_wide: bool
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        leaves, tree = jax.tree.flatten(self.arguments)
        content = tuple((leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in leaves)
        object.__setattr__(self, "key", (tree, content, self.is_wide))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Residuals:
    """What the reverse pass needs: the arguments, and which of them have derivatives."""

    arguments: Arguments
    wrt: tuple[str, ...] = field(metadata={"static": True})


class Transformable:
    """A model as a function of JAX's, by name; `source` is what it is derived from."""

    def __init__(self, name: str, source: ir.Model, model: Model | None = None) -> None:
        self.name, self._source = name, source
        self.model = model or Model.of(name, source)
        self._floats = {
            str(value.name)
            for value in (*self.model.graph.inputs, *self.model.graph.outputs)
            if value.dtype is not None and value.dtype.is_floating_point()
        }
        self._is_plain = all(map(_is_narrow, self.model.graph.outputs))
        self._function = jax.custom_vjp(self._traced, nondiff_argnums=(0,))
        self._function.defvjp(self._forward, self._backward, symbolic_zeros=True)
        self._gradient = cache(self._make_gradient)

    def run(self, arguments: Arguments) -> Sequence[Any]:
        """Run on arguments some of which are arrays of JAX's, and give back such arrays."""
        if not _is_traced(arguments):
            return self._at_once(arguments, _is_wide())
        constants = {name: given for name, given in arguments.items() if _is_constant(given)}
        others = {name: given for name, given in arguments.items() if name not in constants}
        known = Known(constants, _is_wide())
        return self(known, {**others, **self.model.words_of_chance()})

    def prepared(self, arguments: Arguments) -> Run:
        """Return what `run` does for arguments of the same types and shapes as these."""
        if _is_traced(arguments) or not self._is_plain:
            return self.run
        run = self.model.prepared(without_types(arguments)[0])
        return lambda given: (self.run if is_spread(given.values()) else run)(given)

    def __call__(self, known: Known, arguments: Arguments) -> list[Any]:
        """Return the outputs; those of 64 bits have 32 where JAX has no more."""
        if _is_traced(arguments):
            return list(self._function(known, varying_alike(arguments)))
        return self._at_once({**known.arguments, **arguments}, known.is_wide)

    def _at_once(self, arguments: Arguments, is_wide: bool) -> list[Any]:
        """Return the outputs for arguments none of which JAX traces."""
        plain, mesh = without_types(arguments)
        outputs = self.model.run(plain)
        if not self._is_plain:
            with at_once():
                outputs = [_finished(output, is_wide) for output in outputs]
        return list(as_before(outputs, mesh))

    def _traced(self, known: Known, arguments: Arguments) -> list[Any]:
        """Return the outputs, whatever JAX does with the arguments but to differentiate them."""
        if not _is_traced(arguments):
            return self(known, arguments)
        leaves, tree = jax.tree.flatten(arguments)
        return list(bind(_Call(self, known, tree), leaves))

    def _forward(self, known: Known, primals: Any) -> tuple[list[Any], _Residuals]:
        arguments = {name: jax.tree.map(_value, given) for name, given in primals.items()}
        wrt = tuple(
            name
            for name, given in primals.items()
            if name in self._floats and any(leaf.perturbed for leaf in jax.tree.leaves(given))
        )
        return self(known, arguments), _Residuals(arguments, wrt)

    def _backward(self, known: Known, residuals: _Residuals, cotangents: list[Any]) -> Any:
        arguments = residuals.arguments
        seeds = {
            str(output.name): jax.tree.map(_instantiated, cotangent, is_leaf=_is_zero)
            for output, cotangent in zip(self.model.graph.outputs, cotangents, strict=True)
            if output.name in self._floats
            and not all(map(_is_zero, jax.tree.leaves(cotangent, is_leaf=_is_zero)))
        }
        of, wrt = connected(self.model.graph, seeds, residuals.wrt)
        results: dict[str, Any] = dict.fromkeys(arguments)
        if wrt:
            gradient = self._gradient(of, wrt)
            names = [str(value.name) for value in gradient.model.graph.inputs[-len(of) :]]
            given = {name: seeds[output] for name, output in zip(names, of, strict=True)}
            outputs = gradient(known, {**arguments, **given})
            for name, output in zip(wrt, outputs, strict=True):
                results[name] = jax.tree.map(in_type_of, output, arguments[name])
        return (results,)

    def _make_gradient(self, of: tuple[str, ...], wrt: tuple[str, ...]) -> Transformable:
        return Gradient(f"gradient of {self.name}", self._source, of, wrt)

    @property
    def checkpointed(self) -> Model | None:
        """The same with checkpoints in its loops; None if it keeps nothing of them."""
        return None


class Gradient(Transformable):
    """A gradient, whose loops keep what they need for it: all, or checkpoints only."""

    def __init__(
        self, name: str, source: ir.Model, of: tuple[str, ...], wrt: tuple[str, ...]
    ) -> None:
        self._origin = source, of, wrt
        super().__init__(name, _gradients_only(source, of, wrt))

    @cached_property
    def checkpointed(self) -> Model:
        source, of, wrt = self._origin
        return Model.of(self.name, _gradients_only(source, of, wrt, memory="checkpoint"))


def _gradients_only(
    source: ir.Model, of: Sequence[str], wrt: Sequence[str], memory: Memory = None
) -> ir.Model:
    """Return the model of the gradients without the outputs that are not."""
    model = vjp(source, of=of, wrt=wrt, memory=memory)
    del model.graph.outputs[: -len(wrt)]
    return model


@dataclass(frozen=True)
class _Call:
    """A call that JAX traces: the arguments that are not known are the leaves of a tree."""

    function: Transformable
    known: Known
    tree: Any

    @property
    def name(self) -> str:
        return self.function.name

    def attempts(self, axes: Axes, types: tuple[ShapedArray, ...]) -> list[Attempt]:
        model = self.function.model
        attempts = [self._attempt(model, room, axes, types) for room in ROOMS]
        with own_types():
            if attempts[0].is_certain:
                return attempts[:1]
            return [*attempts[:-1], *(self._checkpointed(axes, types) or attempts[-1:])]

    def _checkpointed(self, axes: Axes, types: tuple[ShapedArray, ...]) -> list[Attempt]:
        """Return the attempts with checkpoints; none if these have to know what is traced."""
        model = self.function.checkpointed
        if model is None:
            return []
        attempts = [self._attempt(model, room, axes, types, room**2) for room in CHECKPOINTED]
        try:
            _ = attempts[0].outputs
        except EngineError:
            return []
        return attempts

    def goes_together(self, batched: Sequence[bool]) -> bool:
        given = jax.tree.unflatten(self.tree, batched)
        varying = [name for name, flags in given.items() if any(jax.tree.leaves(flags))]
        return goes_one_way(self.function.model.graph, varying)

    def _attempt(
        self,
        model: Model,
        room: int,
        axes: Axes,
        types: tuple[ShapedArray, ...],
        reach: int | None = None,
    ) -> Attempt:
        def run(*leaves: jax.Array) -> Any:
            arguments = {**self.known.arguments, **jax.tree.unflatten(self.tree, leaves)}
            # A trip of a whole batch is not little work.
            trace = Trace({}, room=room, kernels=not axes)
            try:
                outputs = model.trace(arguments, trace)
            except NotStaticError as error:
                traced = jax.tree.unflatten(self.tree, leaves)
                raise not_known(self.name, model.graph, str(error), traced) from None
            needed = jnp.stack([jnp.int64(0), *trace.reports.values()]).max()
            finished = [_finished(output, self.known.is_wide) for output in outputs]
            return finished, trace.ok, needed

        for dims in reversed(axes):
            run = jax.vmap(run, in_axes=dims, out_axes=(0, None, None))
        return Attempt(run, types, room, reach or room)


def _is_wide() -> bool:
    """Tell whether JAX has numbers of 64 bits."""
    return bool(jax.dtypes.canonicalize_dtype("int64") == np.int64)


def _finished(output: Any, is_wide: bool) -> Any:
    """Return an output as JAX's array, or a list of them; of 32 bits where there are no more."""
    if isinstance(output, list):
        return [_finished(element, is_wide) for element in output]
    if output is ABSENT:
        return None
    return jnp.asarray(output, None if is_wide else _HALVES.get(output.dtype))


def _is_narrow(output: ir.Value) -> bool:
    """Tell whether an output is an array that JAX has, whatever it is set to."""
    if not isinstance(output.type, ir.TensorType) or output.dtype is None:
        return False
    return np.dtype(output.dtype.numpy()) not in _HALVES


def _is_traced(arguments: Arguments) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(dict(arguments)))


def _is_constant(argument: Any) -> bool:
    return all(
        isinstance(leaf, np.ndarray) and leaf.size <= _SMALL for leaf in jax.tree.leaves(argument)
    )


def _value(primal: Any) -> Any:
    return primal.value


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, SymbolicZero)


def _instantiated(cotangent: Any) -> Any:
    return cotangent.instantiate() if _is_zero(cotangent) else cotangent

"""Runs a graph on values that are being traced: each node once, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.delayed import Delayed, delay
from whileback.engines.xla.facts import Trace
from whileback.engines.xla.linear import is_number
from whileback.engines.xla.operator import Operator, as_tuple, concrete, is_static
from whileback.engines.xla.registry import Lowering, controls, lowerings
from whileback.engines.xla.rows import Rows, shape_of
from whileback.errors import EngineError
from whileback.graph.scopes import STANDARD_DOMAINS

__all__ = ["Scope", "apply", "domain_of", "exact", "is_control", "run_graph"]


# What XLA counts bytes with.
_MOST_BYTES = np.iinfo(np.int64).max


class Scope:
    """The values of a graph by what defines them; those of the graphs around it stay readable."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self._values: dict[ir.Value, Any] = {}

    def __getitem__(self, value: ir.Value | None) -> Any:
        scope: Scope | None = self
        while value is not None and scope is not None:
            if value in scope._values:
                return scope._values[value]
            scope = scope._outer
        return None

    def define(self, values: Sequence[ir.Value], results: Sequence[Any], trace: Trace) -> None:
        """Set what values are."""
        for value, result in zip(values, results, strict=False):
            self._values[value] = trace.defined(str(value.name), result)
            if isinstance(result, Rows) and result.capacity:
                trace.latest = result


def domain_of(node: ir.Node) -> str:
    """Return the domain of a node, which is "" for that of ONNX."""
    return "" if node.domain in STANDARD_DOMAINS else node.domain


def is_control(node: ir.Node) -> bool:
    """Tell whether the node has graphs of its own, that the engine runs."""
    return domain_of(node) == "" and node.op_type in controls()


def run_graph(graph: ir.Graph, scope: Scope, trace: Trace) -> list[Any]:
    """Run the graph's nodes, whose inputs the scope has, and return its outputs."""
    for node in graph:
        if node in trace.sums.instead:
            continue
        results: Sequence[Any]
        if is_control(node):
            results = controls()[node.op_type](scope, node, trace)
        else:
            operands = [scope[value] for value in node.inputs]
            delayed = delay(node, operands) if node in trace.delayed else None
            results = [delayed] if delayed else apply(node, operands, trace)
        scope.define(node.outputs, results, trace)
    return [scope[value] for value in graph.outputs]


def exact(trace: Trace, value: Any) -> Any:
    """Return the rows that count as an array; their number must be known while compiling."""
    if isinstance(value, Delayed):
        (stack,) = apply(value.node, [exact(trace, each) for each in value.operands], trace)
        return stack
    if not isinstance(value, Rows):
        return value
    top = trace.top or trace
    if value.origin is not None:
        top.names[id(value.count)] = value.origin
    return value.buffer[: int(trace.static("rows", value.count))]


def apply(node: ir.Node, operands: list[Any], trace: Trace) -> tuple[Any, ...]:
    """Lower one operator."""
    entry = lowerings()[domain_of(node), node.op_type]
    if any(isinstance(operand, Rows) for operand in operands):
        return _on_rows(entry, node, operands, trace)
    folds = entry.folds and all(map(is_static, operands))
    op = Operator(node, trace, np if folds else jnp)
    try:
        with np.errstate(all="ignore"):
            results = tuple(map(concrete, as_tuple(entry.function(op, *operands))))
        _require_possible(results)
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise _refused(node, operands, error) from error
    if any(isinstance(result, jax.Array) and is_number(result) for result in results):
        _note_numbers(entry, node, operands, results, trace)
    return results


def _require_possible(results: Sequence[Any]) -> None:
    """Refuse sizes that XLA cannot count: it ends the process where it finds them.

    Raises:
        ValueError: there is such an array.
    """
    for result in results:
        if isinstance(result, (np.ndarray, jax.Array)):
            size = math.prod(result.shape) * result.dtype.itemsize
            if size > _MOST_BYTES or min(result.shape, default=0) < 0:
                raise ValueError(f"no array can have the shape {list(result.shape)}")


def _refused(node: ir.Node, operands: Sequence[Any], error: Exception) -> EngineError:
    """Return an error that names a node whose operands do not fit."""
    types = [
        f"{operand.dtype}{list(operand.shape)}"
        for operand in operands
        if isinstance(operand, (np.ndarray, jax.Array))
    ]
    return EngineError(
        f"The engine 'xla' cannot run {node.op_type} {node.name!r} on {', '.join(types)}: {error}",
        node=str(node.name),
        reason=str(error),
    )


def _note_numbers(
    entry: Lowering, node: ir.Node, operands: list[Any], results: tuple[Any, ...], trace: Trace
) -> None:
    """Note what is known of integers that are computed from others."""
    known = trace.numbers.operands(node.op_type, operands)
    if known is not None:
        outcomes = as_tuple(entry.function(Operator(node, trace, np), *known))
        for result, outcome in zip(results, outcomes, strict=True):
            trace.numbers.note(result, outcome)


def _on_rows(entry: Lowering, node: ir.Node, operands: list[Any], trace: Trace) -> tuple[Any, ...]:
    """Lower an operator one of whose operands is a stack of which only some rows count."""
    op = Operator(node, trace)
    stacks = [operand for operand in operands if isinstance(operand, Rows)]
    capacity = min(stack.capacity for stack in stacks)
    if capacity > 0 and callable(entry.rows):
        return as_tuple(entry.rows(op, *operands))
    if capacity > 0 and entry.rows == "each" and _go_row_by_row(operands):
        buffers = [
            operand.buffer[:capacity] if isinstance(operand, Rows) else operand
            for operand in operands
        ]
        return tuple(map(stacks[0].like, as_tuple(entry.function(op, *buffers))))
    return apply(node, [exact(trace, operand) for operand in operands], trace)


def _go_row_by_row(operands: Sequence[Any]) -> bool:
    """Tell whether row k of the result is made of row k of each stack, and the same of others."""
    arrays = [operand for operand in operands if operand is not None]
    rank = max(len(shape_of(array)) for array in arrays)
    for array in arrays:
        shape = shape_of(array)
        if isinstance(array, Rows) and len(shape) < rank:
            return False
        if not isinstance(array, Rows) and len(shape) == rank and shape[0] != 1:
            return False
    return True

"""`If`: the branch itself where the condition is known, `cond` where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.control.types import as_arrays, rooms, same_types, with_rooms
from whileback.engines.xla.facts import NotStaticError, Trace
from whileback.engines.xla.interpret import Scope, run_graph
from whileback.engines.xla.registry import control
from whileback.graph.scopes import branches

__all__ = ["branch"]


@control("If")
def branch(scope: Scope, node: ir.Node, trace: Trace) -> list[Any]:
    """Run one of two graphs.

    Where a program may end, branches of other shapes are no harm: it is compiled for one.
    """
    condition = scope[node.inputs[0]]
    if not isinstance(condition, np.ndarray):
        try:
            return _conditional(scope, node, trace, condition)
        except NotStaticError:
            condition = trace.static(f"{node.name}/condition", condition)
    then, other = branches(node)
    return _run(then if condition.item() else other, scope, trace)


def _run(graph: ir.Graph, scope: Scope, trace: Trace) -> list[Any]:
    return run_graph(graph, Scope(scope), trace)


def _conditional(scope: Scope, node: ir.Node, trace: Trace, condition: jax.Array) -> list[Any]:
    """Run one of two graphs whose results have the same shapes, but for the rows of stacks."""

    def run(graph: ir.Graph, keys: tuple[str, ...], sizes: Sequence[int | None] = ()) -> Any:
        inner = trace.within(trace.ok)
        results = as_arrays(_run(graph, scope, inner))
        results = with_rooms(results, sizes) if sizes else results
        ok = jnp.array(True) if inner.ok is None else inner.ok
        zero = jnp.zeros((), jnp.int64)
        keys = keys or tuple(inner.reports)
        return results, ok, {key: inner.reports.get(key, zero) for key in keys}

    graphs = branches(node)
    types = [jax.eval_shape(lambda graph=graph: run(graph, ())) for graph in graphs]
    found = [results for results, _, _ in types]
    sizes = [None] * len(found[0]) if trace.can_end else rooms(*found)
    if not same_types(*(jax.eval_shape(partial(with_rooms, sizes=sizes), each) for each in found)):
        raise NotStaticError(str(node.name))
    keys = tuple({**types[0][2], **types[1][2]})
    then, other = graphs
    results, ok, reports = jax.lax.cond(
        condition.reshape(()), lambda: run(then, keys, sizes), lambda: run(other, keys, sizes)
    )
    trace.report_most(reports)
    if keys or trace.ok is not None:
        trace.ok = ok
    return list(results)

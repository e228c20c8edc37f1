"""`If`: the branch itself where the condition is known, `cond` where it is not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.control.types import as_arrays, same_types
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
    """Run one of two graphs whose results have the same shapes."""

    def run(graph: ir.Graph, keys: tuple[str, ...]) -> Any:
        inner = trace.within(trace.ok)
        results = as_arrays(_run(graph, scope, inner))
        ok = jnp.array(True) if inner.ok is None else inner.ok
        zero = jnp.zeros((), jnp.int64)
        keys = keys or tuple(inner.reports)
        return results, ok, {key: inner.reports.get(key, zero) for key in keys}

    graphs = branches(node)
    types = [jax.eval_shape(lambda graph=graph: run(graph, ())) for graph in graphs]
    if not same_types(types[0][0], types[1][0]):
        raise NotStaticError(str(node.name))
    keys = tuple({**types[0][2], **types[1][2]})
    then, other = graphs
    results, ok, reports = jax.lax.cond(
        condition.reshape(()), lambda: run(then, keys), lambda: run(other, keys)
    )
    trace.report_most(reports)
    if keys or trace.ok is not None:
        trace.ok = ok
    return list(results)

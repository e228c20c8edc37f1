"""`If`: the branch itself where the condition is known, `cond` where it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.control.single import require_single
from whileback.engines.xla.control.types import Once, as_arrays, fitted, joint_type, same_types
from whileback.engines.xla.facts import NotStaticError, Trace
from whileback.engines.xla.interpret import Scope, run_graph
from whileback.engines.xla.registry import control
from whileback.errors import EngineError
from whileback.graph.scopes import branches
from whileback.graph.shapes import static_shape

__all__ = ["branch"]

# How the gradient names what a branch does not keep, see `gradient.rules.controlflow.tape`.
_NOTHING = re.compile(r"/none(_[0-9]+)?$")


@control("If")
def branch(scope: Scope, node: ir.Node, trace: Trace) -> list[Any]:
    """Run one of two graphs.

    Where a program may end, branches of other shapes are no harm: it is compiled for one. So it
    is for a branch that cannot run on arrays of these shapes: models choose by a condition what
    their inputs are fit for.
    """
    condition = scope[node.inputs[0]]
    require_single(node, "condition", condition)
    if not isinstance(condition, np.ndarray):
        try:
            return _conditional(scope, node, trace, condition)
        except (NotStaticError, EngineError):
            condition = trace.static(f"{node.name}/condition", condition)
    then, other = branches(node)
    return _run(then if condition.item() else other, scope, trace)


def _run(graph: ir.Graph, scope: Scope, trace: Trace) -> list[Any]:
    return run_graph(graph, Scope(scope), trace)


def _conditional(scope: Scope, node: ir.Node, trace: Trace, condition: jax.Array) -> list[Any]:
    """Run one of two graphs whose results have the same shapes, but for the rows of stacks."""

    def run(graph: ir.Graph) -> Any:
        inner = trace.within(trace.ok)
        return as_arrays(_run(graph, scope, inner)), inner.ok, inner.reports

    def finished(graph: ir.Graph, part: Once) -> Any:
        results, ok, reports = part()
        if joint is not None:
            results = list(map(_fitted, graph.outputs, results, joint))
        ok = jnp.array(True) if ok is None else ok
        return results, ok, {key: reports.get(key, zero) for key in keys}

    graphs, zero = branches(node), jnp.zeros((), jnp.int64)
    parts = [Once(partial(run, graph)) for graph in graphs]
    (then, _, some), (other, _, others) = (part.types for part in parts)
    joint = None if trace.can_end else _joint(graphs, then, other)
    keys = tuple({**some, **others})
    ways = [partial(finished, *each) for each in zip(graphs, parts, strict=True)]
    if not same_types(*(jax.eval_shape(way)[0] for way in ways)):
        raise NotStaticError(str(node.name))
    results, ok, reports = jax.lax.cond(condition.reshape(()), *ways)
    trace.report_most(reports)
    if keys or trace.ok is not None:
        trace.ok = ok
    return list(results)


def _joint(graphs: Sequence[ir.Graph], then: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Return the types of the results, whichever graph runs."""
    outputs = zip(graphs[0].outputs, graphs[1].outputs, strict=True)
    nothing = [(_is_nothing(one), _is_nothing(two)) for one, two in outputs]
    pairs = zip(then, other, strict=True)
    return [
        pair[first] if first != second else joint_type(*pair)
        for pair, (first, second) in zip(pairs, nothing, strict=True)
    ]


def _fitted(value: ir.Value, result: Any, joint: Any) -> Any:
    """Return a result in the joint type."""
    if _is_nothing(value):
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), joint)
    return fitted(result, joint)


def _is_nothing(value: ir.Value) -> bool:
    """Tell whether a gradient's branch gives this for what it does not keep.

    Who reads it stands in the same branch of another `If`, and does not run then.
    """
    return bool(_NOTHING.search(str(value.name))) and static_shape(value) == (0,)

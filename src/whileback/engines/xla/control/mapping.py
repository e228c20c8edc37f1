"""`SequenceMap`: a graph for each element of sequences, which are known while compiling."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from whileback.engines.xla.facts import Trace
from whileback.engines.xla.interpret import Scope, exact, run_graph
from whileback.engines.xla.registry import control

__all__ = ["sequence_map"]


@control("SequenceMap")
def sequence_map(scope: Scope, node: ir.Node, trace: Trace) -> list[Any]:
    """Run the body on the elements of each sequence in turn, and on tensors as they are."""
    body = node.attributes["body"].as_graph()
    given = [scope[value] for value in node.inputs]
    results: list[list[Any]] = [[] for _ in body.outputs]
    for place in range(len(given[0])):
        inner = trace.written_out(str(node.name), place)
        elements = [each[place] if isinstance(each, list) else each for each in given]
        own = Scope(scope)
        own.define(body.inputs, elements, inner)
        for result, output in zip(results, run_graph(body, own, inner), strict=True):
            result.append(exact(inner, output))
        trace.ok = inner.ok
    return results

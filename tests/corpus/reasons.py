"""Which of a model's inputs no gradient reaches, and why."""

from __future__ import annotations

import onnx_ir as ir
from tests.corpus.cases import Case

from whileback.gradient.activity import dependents, reaching
from whileback.gradient.registry import lookup
from whileback.gradient.selection import select
from whileback.graph.normalize import normalize
from whileback.graph.scopes import operands

__all__ = ["inactive"]


def inactive(case: Case) -> dict[str, str]:
    """Return, for each of `wrt` from which no gradient leads to `of`, the reason."""
    model = normalize(case.model, needs_expansion=lambda node: lookup(node) is None)
    sources = select(model, case.wrt, "wrt")
    active = dependents(model.graph, sources)
    active &= reaching(model.graph, select(model, case.of, "of"), active)
    return {
        str(value.name): _reason(model.graph, value) for value in sources if value not in active
    }


def _reason(graph: ir.Graph, value: ir.Value) -> str:
    """Return what the rules say of the operators in which the way from the value ends."""
    reached, found = {value}, dict[str, str]()
    for node in graph:
        if any(operand in reached for operand in operands(node)):
            entry = lookup(node)
            if entry is not None and entry.reason:
                found[node.op_type] = entry.reason
            else:
                reached.update(node.outputs)
    ends = [f"{operator}: {reason}" for operator, reason in found.items()]
    return "; ".join(ends) or f"no float output depends on {value.name}"

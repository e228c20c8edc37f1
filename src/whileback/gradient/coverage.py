"""Which operators on the gradient's way have no rule: all of them at once."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from whileback.errors import NoGradientError
from whileback.gradient.activity import Values
from whileback.gradient.registry import lookup
from whileback.graph.scopes import subgraphs

__all__ = ["check_coverage"]


def check_coverage(model: ir.Model, active: Values) -> None:
    """Refuse a model in which a gradient meets operators that have no rule.

    Raises:
        NoGradientError: lists every such operator with its nodes and their paths.
    """
    missing: dict[str, list[str]] = {}
    for path, node in _paths(model.graph, ""):
        if lookup(node) is None and any(value in active for value in node.outputs):
            missing.setdefault(_identifier(model, node), []).append(path)
    if missing:
        raise NoGradientError(_message(missing))


def _paths(graph: ir.Graph, prefix: str) -> Iterator[tuple[str, ir.Node]]:
    for node in graph:
        path = f"{prefix}{node.name}"
        yield path, node
        for inner in subgraphs(node):
            yield from _paths(inner, f"{path}/")


def _identifier(model: ir.Model, node: ir.Node) -> str:
    domain = node.domain or "ai.onnx"
    version = model.opset_imports.get(node.domain, model.opset_imports.get(domain))
    return f"{domain}{'' if version is None else f'@{version}'}::{node.op_type}"


def _message(missing: dict[str, list[str]]) -> str:
    lines = ["The gradient meets operators that have no rule:"]
    for operator, paths in sorted(missing.items()):
        shown = ", ".join(f"'{path}'" for path in paths[:3])
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        lines.append(f"  {operator}: node{'s' if len(paths) > 1 else ''} {shown}{more}")
    if any("Sequence" in operator.rpartition("::")[2] for operator in missing):
        lines.append(
            "Sequences, as the state of a loop or elsewhere, are not differentiated yet. A scan "
            "output of the loop collects rows as well, and is."
        )
    lines.append(
        'Register a rule for each with @whileback.rule("domain::Op"), or name other values in '
        "of= and wrt=, between which they do not lie. `whileback rules OP` tells more."
    )
    return "\n".join(lines)

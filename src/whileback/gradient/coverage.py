"""Which operators on the gradient's way have no rule: all of them at once."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from whileback.errors import NoGradientError
from whileback.gradient.activity import Values
from whileback.gradient.registry import lookup
from whileback.graph.definitions.table import UNDEFINED
from whileback.graph.scopes import subgraphs

__all__ = ["check_coverage"]


def check_coverage(model: ir.Model, active: Values, quantized: bool = False) -> None:
    """Refuse a model in which a gradient meets operators that have no rule.

    Args:
        model: in normal form.
        active: the values that have cotangents.
        quantized: whether operators that round count as if they did not.

    Raises:
        NoGradientError: lists every such operator with its nodes and their paths; or else all that
            round.
    """
    missing: dict[str, list[str]] = {}
    reasons: list[str] = []
    rounding: dict[str, list[str]] = {}
    for path, node in _paths(model.graph, ""):
        if not any(value in active for value in node.outputs):
            continue
        entry = lookup(node)
        if entry is None:
            missing.setdefault(_identifier(model, node), []).append(path)
            reasons += [node.meta[UNDEFINED]] if UNDEFINED in node.meta else []
        elif entry.rounds and not quantized:
            rounding.setdefault(_identifier(model, node), []).append(path)
    if missing:
        raise NoGradientError("\n".join([_missing(missing), *reasons]))
    if rounding:
        raise NoGradientError(_rounding(rounding))


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


def _missing(found: dict[str, list[str]]) -> str:
    return (
        "The gradient meets operators that have no rule:\n"
        f"{_listed(found)}\n"
        'Register a rule for each with @whileback.rule("domain::Op"), or name other values in '
        "of= and wrt=, between which they do not lie. `whileback rules OP` tells more."
    )


def _rounding(found: dict[str, list[str]]) -> str:
    return (
        "The gradient meets operators that round, so that their slope is zero almost everywhere:\n"
        f"{_listed(found)}\n"
        'Say quantized="straight-through" (--quantized straight-through) to differentiate them as '
        "if they did not round, as quantisation-aware training does."
    )


def _listed(found: dict[str, list[str]]) -> str:
    lines = []
    for operator, paths in sorted(found.items()):
        shown = ", ".join(f"'{path}'" for path in paths[:3])
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        lines.append(f"  {operator}: node{'s' if len(paths) > 1 else ''} {shown}{more}")
    return "\n".join(lines)

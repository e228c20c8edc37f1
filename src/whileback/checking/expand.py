"""Expands the operators that ONNX Runtime has no double kernel for into ones that have.

The expansions are written for float64 and for correctness, from the text of the ONNX
specification, and are used nowhere else: what they replace is judged by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.checking.expand_elementwise import ELEMENTWISE
from whileback.checking.expand_normalization import NORMALIZATION
from whileback.checking.expand_rnn import RNN
from whileback.checking.expand_windows import WINDOWS
from whileback.checking.expansion import Expansion
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.scopes import STANDARD_DOMAINS, subgraphs
from whileback.graph.shapes import Shapes

__all__ = ["expand"]

EXPANSIONS: dict[str, Expansion] = {**ELEMENTWISE, **NORMALIZATION, **RNN, **WINDOWS}


def expand(model: ir.Model, shapes: Shapes) -> None:
    """Expand, in place and in all subgraphs, the operators that have an expansion.

    The model's types and shapes must be inferred, and its opset must be 18 or newer. A node with
    an input of unknown rank stays as it is.
    """
    _expand_graph(model.graph, Names.of(model.graph), shapes)


def _expand_graph(graph: ir.Graph, names: Names, shapes: Shapes) -> None:
    """Take all nodes out and put them back one by one, or what they are expanded into."""
    nodes = list(graph)
    graph.remove(nodes)
    op = Builder(graph, names, shapes)
    for node in nodes:
        for inner in subgraphs(node):
            _expand_graph(inner, names, shapes)
        expansion = _expansion(node)
        if expansion is None:
            graph.append(node)
        else:
            op.origin = node
            _substitute(op, node, expansion(op, node, *node.inputs))


def _expansion(node: ir.Node) -> Expansion | None:
    if node.domain not in STANDARD_DOMAINS:
        return None
    ranks_known = all(value is None or value.shape is not None for value in node.inputs)
    # The ranks of recurrent layers are the same for all.
    return EXPANSIONS.get(node.op_type) if ranks_known or node.op_type in RNN else None


def _substitute(op: Builder, node: ir.Node, results: Sequence[ir.Value]) -> None:
    for old, new in zip(node.outputs, results, strict=False):
        if not old.name:
            continue
        named = op.Identity(new)
        old.replace_all_uses_with(named, replace_graph_outputs=True)
        old.name, named.name = None, old.name
        named.shape = named.shape or old.shape
    node.resize_inputs(0)

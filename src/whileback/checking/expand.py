"""Expands the operators that ONNX Runtime has no double kernel for into ones that have.

The expansions are written for float64 and for correctness, from the text of the ONNX
specification, and are used nowhere else: what they replace is judged by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.checking.expand_elementwise import ELEMENTWISE
from whileback.checking.expand_normalization import NORMALIZATION
from whileback.checking.expand_resize import RESIZE
from whileback.checking.expand_rnn import RNN
from whileback.checking.expand_windows import WINDOWS
from whileback.checking.expansion import Expansion, UnknownRankError
from whileback.graph.builder import Builder
from whileback.graph.moving import taken_out
from whileback.graph.names import Names
from whileback.graph.scopes import STANDARD_DOMAINS, subgraphs
from whileback.graph.shapes import Shapes

__all__ = ["expand"]

EXPANSIONS: dict[str, Expansion] = {
    **ELEMENTWISE,
    **NORMALIZATION,
    **RESIZE,
    **RNN,
    **WINDOWS,
}


def expand(model: ir.Model, shapes: Shapes) -> None:
    """Expand, in place and in all subgraphs, the operators that have an expansion.

    The model's types and shapes must be inferred, and its opset must be 18 or newer. A node stays
    as it is if its expansion depends on a rank that is not known.
    """
    _expand_graph(model.graph, Names.of(model.graph), shapes)


def _expand_graph(graph: ir.Graph, names: Names, shapes: Shapes) -> None:
    """Take all nodes out and put them back one by one, or what they are expanded into."""
    nodes = taken_out(graph)
    op = Builder(graph, names, shapes)
    for node in nodes:
        for inner in subgraphs(node):
            _expand_graph(inner, names, shapes)
        expansion = EXPANSIONS.get(node.op_type) if node.domain in STANDARD_DOMAINS else None
        op.origin = node
        try:
            results = [] if expansion is None else expansion(op, node, *node.inputs)
        except UnknownRankError:
            results = []
        if results:
            _substitute(op, node, results)
        else:
            graph.append(node)


def _substitute(op: Builder, node: ir.Node, results: Sequence[ir.Value]) -> None:
    for old, new in zip(node.outputs, results, strict=False):
        if not old.name:
            continue
        named = op.Identity(new)
        old.replace_all_uses_with(named, replace_graph_outputs=True)
        old.name, named.name = None, old.name
        named.shape = named.shape or old.shape
    node.resize_inputs(0)

"""Normal form (being written)."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from whileback.graph.shapes import Shapes


def normalize(
    model: ir.Model,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    needs_expansion: Callable[[ir.Node], bool] | None = None,
) -> ir.Model:
    """Return a copy of the model in normal form."""
    copy = model.clone()
    for i, n in enumerate(ir.traversal.RecursiveGraphIterator(copy.graph)):
        n.name = n.name or f"{n.op_type}_{i}"
    Shapes(copy.graph.opset_imports).infer_graph(copy.graph)
    return copy

"""Types and shapes of values for which the model does not tell them."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import WhilebackError
from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes

__all__ = ["typed"]


def typed(model: ir.Model) -> ir.Model:
    """Return a model with the types that its nodes tell; what is not valid stays as it is."""
    if all(value.type and value.shape for node in walk(model.graph) for value in node.outputs):
        return model
    copy = model.clone()
    try:
        Shapes(copy.opset_imports).infer_graph(copy.graph)
    except WhilebackError:
        # To look into a model that no runtime takes may be what the page is for.
        return model
    return copy

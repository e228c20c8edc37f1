"""Types and shapes of values for which the model does not tell them."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes

__all__ = ["typed"]


def typed(model: ir.Model) -> ir.Model:
    """Return a model with the types that its nodes tell; what is not valid stays as it is."""
    made = [value for node in walk(model.graph) for value in node.outputs]
    if all(value.type is not None and value.shape is not None for value in made):
        return model
    try:
        copy = model.clone()
        Shapes(copy.opset_imports).infer_graph(copy.graph)
    except Exception:
        # What is not valid can fail anywhere; to look into it may be what the page is for.
        return model
    return copy

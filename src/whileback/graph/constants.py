"""Values whose content is known when the graph is written."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["known_ints"]


def known_ints(value: ir.Value | None) -> list[int] | None:
    """Return the elements of an integer tensor if they are known.

    The default of a graph's input is not: another value may be given for the run.
    """
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(element) for element in tensor.numpy().ravel()]

"""Values whose content is known when the graph is written."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["known_ints"]


def known_ints(value: ir.Value | None) -> list[int] | None:
    """Return the elements of an integer tensor if they are known."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(element) for element in tensor.numpy().ravel()]

"""Values whose content is known when the graph is written."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.graph.tensors import known_tensor

__all__ = ["known_floats", "known_ints"]


def known_ints(value: ir.Value | None) -> list[int] | None:
    """Return the elements of an integer tensor if they are known.

    The default of a graph's input is not: another value may be given for the run.
    """
    elements = _known(value)
    return None if elements is None else [int(element) for element in elements]


def known_floats(value: ir.Value | None) -> list[float] | None:
    """Return the elements of a tensor of floats if they are known."""
    elements = _known(value)
    return None if elements is None else [float(element) for element in elements]


def _known(value: ir.Value | None) -> np.ndarray | None:
    if value is None or value.is_graph_input():
        return None
    tensor = known_tensor(value)
    return None if tensor is None else tensor.numpy().ravel()

"""Inputs of a step that need not be given the first time."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder

__all__ = ["default"]


def default(op: Builder, name: str, first: np.ndarray) -> ir.Value:
    """Return a new input of a main graph with a default; its name is like the one given."""
    dtype = ir.DataType.from_numpy(first.dtype)
    value = ir.Value(name=op.names.fresh(name), type=ir.TensorType(dtype))
    value.shape = ir.Shape(first.shape)
    value.const_value = ir.tensor(first, name=value.name)
    op.graph.inputs.append(value)
    op.graph.register_initializer(value)
    return value

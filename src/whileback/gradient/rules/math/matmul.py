"""Gradients of matrix products."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.graph.shapes import rank


@rule("MatMul")
def matmul(
    op: GradientBuilder, node: ir.Node, dY: ir.Value
) -> tuple[ir.Value | None, ir.Value | None]:
    """Y = A·B, so dA = dY·Bᵀ and dB = Aᵀ·dY, each summed back to its own shape."""
    A, B = node.inputs
    assert A is not None and B is not None
    dA = op.MatMul(dY, op.Transpose(B, perm=[1, 0])) if A in op.active else None
    dB = op.Gemm(A, dY, transA=1) if B in op.active else None
    return dA, dB

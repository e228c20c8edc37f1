"""Products of matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


@lowering("MatMul")
def matmul(op: Operator, A: Any, B: Any) -> Any:
    """Y = A·B."""
    return jnp.matmul(A, B)


def gemm_rows(op: Operator, A: Any, B: Any, C: Any = None) -> Any:
    """Rows that do not count are zeros of the sum over rows."""
    return gemm(op, A.filled(0), B.filled(0), C)


@lowering("Gemm", rows=gemm_rows)
def gemm(op: Operator, A: Any, B: Any, C: Any = None) -> Any:
    """Y = alpha·A·B + beta·C, A and B transposed where asked for."""
    left = A.T if op.integer("transA", 0) else A
    right = B.T if op.integer("transB", 0) else B
    product = op.number("alpha", 1.0) * (left @ right)
    return (
        product.astype(A.dtype)
        if C is None
        else (product + op.number("beta", 1.0) * C).astype(A.dtype)
    )

"""Products of matrices, and other sums of products."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.math.contraction import contract
from whileback.engines.xla.operators.numbers import wide_type
from whileback.engines.xla.registry import lowering
from whileback.engines.xla.rows import Rows, shape_of

__all__: list[str] = []


def _product(A: Any, B: Any) -> jax.Array:
    """Return A·B, added up in float32 at least."""
    return jnp.matmul(A, B, preferred_element_type=wide_type(A.dtype)).astype(A.dtype)


def _matmul_labels(A: Any, B: Any) -> tuple[list[str], str]:
    """Return labels of the axes of the operands and the result of `MatMul`, as `Einsum` has them.

    There may be stacks of matrices, and vectors, which are rows on the left and columns on the
    right.
    """
    ranks = len(shape_of(A)), len(shape_of(B))
    stack = ascii_letters[: max(*ranks, 2) - 2]
    left = (stack + "YZ")[-ranks[0] :] if ranks[0] > 1 else "Z"
    right = (stack + "ZX")[-ranks[1] :] if ranks[1] > 1 else "Z"
    return [left, right], stack + "Y" * (ranks[0] > 1) + "X" * (ranks[1] > 1)


def matmul_rows(op: Operator, A: Any, B: Any) -> Any:
    """Rows are matrices of a stack, or the rows of one matrix, or are summed over."""
    return contract(op.trace, _product, [A, B], *_matmul_labels(A, B))


@lowering("MatMul", rows=matmul_rows)
def matmul(op: Operator, A: Any, B: Any) -> Any:
    """Y = A·B."""
    return _product(A, B)


def gemm_rows(op: Operator, A: Any, B: Any, C: Any = None) -> Any:
    """Rows of A are rows of the result, or are summed over if A is transposed."""
    left = "km" if op.integer("transA", 0) else "mk"
    right = "nk" if op.integer("transB", 0) else "kn"
    AB = contract(op.trace, lambda A, B: gemm(op, A, B), [A, B], [left, right], "mn")
    if C is None:
        return AB
    if not isinstance(AB, Rows) or (not isinstance(C, Rows) and C.ndim == 2 and C.shape[0] != 1):
        return _plus(op, exact(op.trace, AB), exact(op.trace, C))
    if not isinstance(C, Rows):
        return AB.like(_plus(op, AB.buffer, C))
    room = min(AB.capacity, C.capacity)
    return AB.like(_plus(op, AB.buffer[:room], C.buffer[:room]))


@lowering("Gemm", rows=gemm_rows)
def gemm(op: Operator, A: Any, B: Any, C: Any = None) -> Any:
    """Y = alpha·A·B + beta·C, A and B transposed where asked for."""
    left = A.T if op.integer("transA", 0) else A
    right = B.T if op.integer("transB", 0) else B
    AB = _times(op.number("alpha", 1.0), _product(left, right))
    return AB if C is None else _plus(op, AB, C)


def _plus(op: Operator, AB: Any, C: Any) -> Any:
    return AB + _times(op.number("beta", 1.0), C)


def _times(factor: float, X: Any) -> Any:
    return X if factor == 1 else (factor * X).astype(X.dtype)


def einsum_rows(op: Operator, *operands: Any) -> Any:
    """Rows are told by the label of their axis."""
    equation = str(op.text("equation")).replace(" ", "")
    if "." in equation:
        return einsum(op, *(exact(op.trace, operand) for operand in operands))
    before, arrow, after = equation.partition("->")
    alone = sorted(label for label in set(before) - {","} if before.count(label) == 1)
    result = after if arrow else "".join(alone)
    return contract(op.trace, lambda *X: einsum(op, *X), operands, before.split(","), result)


@lowering("Einsum", rows=einsum_rows)
def einsum(op: Operator, *operands: Any) -> Any:
    """The sum of products that the equation says."""
    equation, dtype = str(op.text("equation")).replace(" ", ""), op.dtype()
    result = jnp.einsum(equation, *operands, preferred_element_type=wide_type(dtype))
    return result.astype(dtype)

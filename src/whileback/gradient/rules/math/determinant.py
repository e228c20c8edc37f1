"""The gradient of `Det`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("Det")
def det(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = det X, so dX = dY·cofactors(X), which is dY·det(X)·X⁻ᵀ and exists without an inverse.

    The cofactor (i, j) is the determinant of X with row i replaced by the unit vector j. All n² of
    them are computed, in O(n⁵): meant for small matrices.
    """
    X = required(node)
    numbers = op.arange(op.dim(X, -1))
    unit = op.Equal(op.Unsqueeze(numbers, [1]), numbers)
    replaced = op.Unsqueeze(unit, [1, 3])
    rows = op.cast(op.Unsqueeze(unit, [0, 2]), X)
    cofactors = op.Det(op.Where(replaced, rows, op.Unsqueeze(X, [-4, -3])))
    return op.Mul(op.Unsqueeze(dY, [-2, -1]), cofactors)

"""Gradients of elementwise arithmetic."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule

Pair = tuple[ir.Value | None, ir.Value | None]


def binary_inputs(node: ir.Node) -> tuple[ir.Value, ir.Value]:
    """Return the two inputs of a binary operator."""
    A, B = node.inputs
    assert A is not None and B is not None
    return A, B


@rule("Add")
def add(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A + B, so dA = dC and dB = dC, each summed back to its own shape."""
    A, B = binary_inputs(node)
    return op.unbroadcast(dC, A), op.unbroadcast(dC, B)


@rule("Sub")
def sub(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A - B, so dA = dC and dB = -dC, each summed back to its own shape."""
    A, B = binary_inputs(node)
    return op.unbroadcast(dC, A), op.Neg(op.unbroadcast(dC, B))


@rule("Mul")
def mul(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A·B, so dA = dC·B and dB = dC·A, each summed back to its own shape."""
    A, B = binary_inputs(node)
    dA = op.unbroadcast(op.Mul(dC, B), A) if A in op.active else None
    dB = op.unbroadcast(op.Mul(dC, A), B) if B in op.active else None
    return dA, dB


@rule("Div")
def div(op: GradientBuilder, node: ir.Node, dC: ir.Value) -> Pair:
    """C = A/B, so dA = dC/B and dB = -dC·C/B, each summed back to its own shape."""
    A, B = binary_inputs(node)
    scaled = op.Div(dC, B)
    dA = op.unbroadcast(scaled, A)
    if B not in op.active:
        return dA, None
    return dA, op.Neg(op.unbroadcast(op.Mul(scaled, node.outputs[0]), B))


@rule("Neg")
def neg(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y = -X, so dX = -dY."""
    return op.Neg(dY)

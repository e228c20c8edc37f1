"""Sums over trips of products: stack the factors, multiply once after the loop.

The gradient of a captured weight W of `y = x·W` is the sum over trips of `x_tᵀ·dy_t`, which is
one product of the stacked rows: `Xᵀ·dY`. It takes one node after the loop instead of a product
and an addition in every trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.scopes import is_standard

__all__ = ["Product", "split_products"]

Finish = Callable[[Builder, Sequence[ir.Value]], ir.Value]


@dataclass(frozen=True)
class Product:
    """One product to be made after the loop: the factors of a trip, and what to do with stacks."""

    factors: tuple[ir.Value, ...]
    finish: Finish


def split_products(total: ir.Value, body: ir.Graph) -> tuple[list[Product], list[ir.Value]]:
    """Split what a trip adds to a sum into products to be made later and terms to be added now."""
    node = total.producer()
    if node is None or node.graph is not body:
        return [], [total]
    if is_standard(node, "Add") and _same_shapes(node):
        parts = [split_products(value, body) for value in node.inputs if value is not None]
        return [p for part in parts for p in part[0]], [t for part in parts for t in part[1]]
    product = _product(node)
    return ([], [total]) if product is None else ([product], [])


def _same_shapes(node: ir.Node) -> bool:
    shapes = [None if value is None else value.shape for value in node.inputs]
    return shapes[0] is not None and shapes[0] == shapes[1]


def _product(node: ir.Node) -> Product | None:
    if is_standard(node, "Gemm"):
        return _gemm(node)
    if is_standard(node, "ReduceSum"):
        return _reduce_sum(node)
    return None


def _gemm(node: ir.Node) -> Product | None:
    """Σ AᵀB over trips is the product of the stacks with trips and rows as one axis."""
    attributes = node.attributes
    plain = attributes.get_float("alpha", 1.0) == 1.0 and not attributes.get_int("transB", 0)
    A, B = node.inputs[0], node.inputs[1]
    if not plain or not attributes.get_int("transA", 0) or len(node.inputs) > 2:
        return None
    if A is None or B is None or A.shape is None or B.shape is None:
        return None
    widths = [shape[1] for shape in (A.shape, B.shape)]
    if not all(isinstance(width, int) and width > 0 for width in widths):
        return None

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        flat = [
            op.Reshape(stack, [-1, width]) for stack, width in zip(stacks, widths, strict=True)
        ]
        return op.Gemm(*flat, transA=1)

    return Product((_flat_source(A), _flat_source(B)), finish)


def _flat_source(value: ir.Value) -> ir.Value:
    """Look through nodes that only change the shape: the stacks are flattened anyway."""
    node = value.producer()
    while node is not None and is_standard(node, "Reshape", "Unsqueeze", "Squeeze", "Flatten"):
        source = node.inputs[0]
        if source is None or source.graph is not node.graph:
            break
        value, node = source, source.producer()
    return value


def _reduce_sum(node: ir.Node) -> Product | None:
    """Σ over trips and axes: sum the stack over axis 0 as well."""
    X = node.inputs[0]
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    known = None if axes is None else ir.convenience.get_const_tensor(axes)
    if X is None or X.shape is None or known is None:
        return None
    count = len(X.shape)
    stacked = [0, *(int(axis) % count + 1 for axis in np.atleast_1d(known.numpy()))]
    keep = node.attributes.get_int("keepdims", 1)

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        total = op.ReduceSum(stacks[0], stacked, keepdims=keep)
        return op.Squeeze(total, [0]) if keep else total

    return Product((X,), finish)

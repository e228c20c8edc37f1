"""What the reverse loop need not do in every trip: products of stacks, made once after the loop.

The gradient of a captured weight W of `y = x·W` is the sum over trips of `x_tᵀ·dy_t`, which is one
product of the stacked rows, `Xᵀ·dY`. The gradient of a row that is read, `dx_t = dy_t·Wᵀ`, is a row
of `dY·Wᵀ`. Either takes one node after the loop instead of one or two in every trip.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.gradient.rules.controlflow.scattered import (
    Finish,
    adds_amid_zeros,
    scatter_stacks,
)
from whileback.gradient.rules.controlflow.stacked import on_stacks
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.scopes import is_standard
from whileback.graph.shapes import HALVES

__all__ = ["Bodies", "Product", "is_inner", "postponed", "split_products", "summed"]

Bodies = tuple[ir.Graph | None, ...]

# A sum over trips goes through these: f(a) + f(b) = f(a + b).
LINEAR = ("Cast", "Neg", "Transpose", "Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Product:
    """What is computed after the loop: the factors of a trip, and what to do with their stacks."""

    factors: tuple[ir.Value, ...]
    finish: Finish


def _plain(value: ir.Value) -> Product:
    """Return the product of one factor, which is only stacked."""
    return Product((value,), lambda _, stacks: stacks[0])


def summed(value: ir.Value) -> Product:
    """Return the sum over trips of a value that is stacked anyway."""
    return Product((value,), lambda op, stacks: op.ReduceSum(stacks[0], [0], keepdims=0))


def postponed(value: ir.Value, rows: Collection[ir.Value], readers: int = 0) -> Product:
    """Return how to compute, after the loop, the stack of a value that the body only writes.

    Args:
        value: an output of the body, or a value that `readers` nodes read.
        rows: the rows that the body reads in the order of the trips along axis 0.
        readers: how many nodes read the value.
    """
    node = value.producer()
    if node is None or len(value.uses()) > readers or is_standard(node, "ReduceSum", "ReduceMean"):
        return _plain(value)
    inner = [v for v in node.inputs if v is not None and (v in rows or is_inner(v, (node.graph,)))]
    computed = list(dict.fromkeys(v for v in inner if v not in rows))
    emit = on_stacks(node, inner)
    if emit is None or len(computed) != 1 or (readers and value.is_graph_output()):
        return _plain(value)
    before = postponed(computed[0], rows, readers=1)
    others = [v for v in inner if v in rows]

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        count = len(before.factors)
        read = dict(zip(others, stacks[count:], strict=True))
        return emit(op, {computed[0]: before.finish(op, stacks[:count]), **read})

    return Product((*before.factors, *others), finish)


def is_inner(value: ir.Value, bodies: Bodies) -> bool:
    """Tell whether one of the bodies computes the value, or carries or reads it."""
    producer = value.producer()
    if producer is None:
        return not value.is_initializer() and (value.graph is None or value.graph in bodies)
    return producer.graph in bodies


def split_products(
    total: ir.Value, bodies: Bodies, varying: set[ir.Value]
) -> tuple[list[Product], list[ir.Value]]:
    """Split what a trip adds to a sum into products to be made later and terms to be added now.

    Args:
        total: what is added in each trip, computed by the first of the bodies.
        bodies: the reverse body, and the forward body, whose values differ from trip to trip too.
        varying: values whose shape changes from trip to trip; they cannot be stacked.
    """
    node = total.producer()
    if node is None or node.graph is not bodies[0]:
        return [], [total]
    if is_standard(node, "Add") and _same_shapes(node):
        parts = [split_products(v, bodies, varying) for v in node.inputs if v is not None]
        return [p for part in parts for p in part[0]], [t for part in parts for t in part[1]]
    summand = _linear_in(node, bodies)
    if summand is not None:
        products, terms = split_products(required(node, summand), bodies, varying)
        if products and not terms:
            return [_through(node, summand, product) for product in products], []
    product = _product(node, bodies)
    if product is None or not varying.isdisjoint(product.factors):
        return [], [total]
    return [product], []


def _linear_in(node: ir.Node, bodies: Bodies) -> int | None:
    """Return the one input that differs from trip to trip, if f(a) + f(b) = f(a + b) holds."""
    if is_standard(node, *LINEAR):
        summand = 0
    elif adds_amid_zeros(node):
        summand = 2
    else:
        return None
    return summand if _inner_inputs(node, bodies) == [summand] else None


def _inner_inputs(node: ir.Node, bodies: Bodies) -> list[int]:
    return [k for k, v in enumerate(node.inputs) if v is not None and is_inner(v, bodies)]


def _through(node: ir.Node, summand: int, product: Product) -> Product:
    before, after = node.inputs[:summand], node.inputs[summand + 1 :]
    attributes = {a.name: a.value for a in node.attributes.values()}

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        inputs = [*before, product.finish(op, stacks), *after]
        return op.emit(node.op_type, inputs, attributes)[0]

    return Product(product.factors, finish)


def _same_shapes(node: ir.Node) -> bool:
    shapes = [None if value is None else value.shape for value in node.inputs]
    return shapes[0] is not None and shapes[0] == shapes[1]


def _product(node: ir.Node, bodies: Bodies) -> Product | None:
    if is_standard(node, "Gemm"):
        return _gemm(node, bodies)
    if is_standard(node, "ReduceSum"):
        return _reduce_sum(node, bodies)
    return _scattered(node, bodies) if adds_amid_zeros(node) else None


def _scattered(node: ir.Node, bodies: Bodies) -> Product | None:
    """Σ of zeros with updates at indices over trips: those of all trips at once."""
    finish = scatter_stacks(node) if _inner_inputs(node, bodies) == [1, 2] else None
    return None if finish is None else Product((required(node, 1), required(node, 2)), finish)


def _gemm(node: ir.Node, bodies: Bodies) -> Product | None:
    """Σ AᵀB over trips is the product of the stacks with trips and rows as one axis."""
    attributes = node.attributes
    simple = attributes.get_float("alpha", 1.0) == 1.0 and not attributes.get_int("transB", 0)
    A, B = node.inputs[0], node.inputs[1]
    if not simple or not attributes.get_int("transA", 0) or len(node.inputs) > 2:
        return None
    if A is None or B is None or A.shape is None or B.shape is None:
        return None
    widths = [shape[1] for shape in (A.shape, B.shape)]
    if not all(isinstance(width, int) and width > 0 for width in widths):
        return None
    if not (is_inner(A, bodies) and is_inner(B, bodies)):
        return None

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        flat = [op.Reshape(stack, [-1, width]) for stack, width in zip(stacks, widths, strict=True)]
        return op.Gemm(*flat, transA=1)

    return Product((_flat_source(A, bodies), _flat_source(B, bodies)), finish)


def _flat_source(value: ir.Value, bodies: Bodies) -> ir.Value:
    """Look through nodes that only change the shape: the stacks are flattened anyway."""
    node = value.producer()
    while node is not None and is_standard(node, "Reshape", "Unsqueeze", "Squeeze", "Flatten"):
        source = node.inputs[0]
        if source is None or not is_inner(source, bodies):
            break
        value, node = source, source.producer()
    return value


def _narrow_source(value: ir.Value) -> ir.Value:
    """Look through a cast of what has 16 bits: a stack of that takes half the memory."""
    node = value.producer()
    source = node.inputs[0] if node is not None and is_standard(node, "Cast") else None
    return value if source is None or source.dtype not in HALVES else source


def _reduce_sum(node: ir.Node, bodies: Bodies) -> Product | None:
    """Σ over trips and axes: sum the stack over axis 0 as well."""
    wide, known = required(node), known_ints(optional(node, 1))
    X = _narrow_source(wide)
    if X.shape is None or known is None or not is_inner(X, bodies):
        return None
    count = len(X.shape)
    stacked = [0, *(axis % count + 1 for axis in known)]
    keep = node.attributes.get_int("keepdims", 1)

    def finish(op: Builder, stacks: Sequence[ir.Value]) -> ir.Value:
        total = op.ReduceSum(op.cast(stacks[0], wide), stacked, keepdims=keep)
        return op.Squeeze(total, [0]) if keep else total

    return Product((X,), finish)

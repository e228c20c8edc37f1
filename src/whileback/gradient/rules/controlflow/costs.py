"""What values take in bytes, and what it costs to keep them or to compute them again.

Costs are nanoseconds, measured with ONNX Runtime 1.32 on one thread. Other machines have other
ones; what matters are the ratios between them. Where a size is known only when the model runs,
`ASSUMED` stands in for it.
"""

from __future__ import annotations

from math import ceil, isqrt, prod

import onnx_ir as ir

from whileback.gradient.rules.controlflow.stacked import ELEMENTWISE
from whileback.graph.scopes import is_loop, is_standard, subgraphs
from whileback.graph.shapes import static_shape

__all__ = ["NODE", "READ", "ROW", "keeping", "known_bytes", "work"]

# What stands in for an unknown dimension or number of trips, and squared for an unknown rank.
ASSUMED = 32

# To run a node of a loop's body, however little it does.
NODE = 250
# To keep a row of a trip: to write it to the tape and to read it on the way back, and its bytes.
ROW, ROW_BYTE = 900, 0.25
# To read a row that is there anyway.
READ = 150
# To read or write a byte: in passing, and where an operator may go over it again and again.
PASS_BYTE, OTHER_BYTE = 0.02, 0.2
# To compute an element of a function that takes many steps.
SLOW_ELEMENT = 2
# To look up an element or a slice.
INDEX = 10
# To multiply and add, within a product.
MULTIPLICATION = 0.03

VIEWS = frozenset("Flatten Identity Reshape Shape Size Squeeze Unsqueeze".split())
PASSES = ELEMENTWISE | frozenset(
    "Concat ConstantOfShape Elu Expand EyeLike Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu "
    "Mean Mod PRelu Pad Range ReduceMax ReduceMean ReduceMin ReduceSum Selu Softsign Split "
    "ThresholdedRelu Tile Transpose Trilu".split()
)
SLOW = frozenset("Acos Acosh Asin Asinh Atan Atanh Cos Cosh Log Pow Sin Sinh Softplus Tan".split())
PARTS = frozenset("Gather GatherElements GatherND Slice".split())
LOOKUPS = frozenset(
    "Gather GatherElements GatherND Scatter ScatterElements ScatterND TensorScatter".split()
)
PRODUCTS = frozenset("Gemm MatMul MatMulInteger".split())
CONVOLUTIONS = frozenset("Conv ConvInteger ConvTranspose DeformConv".split())


def known_bytes(value: ir.Value) -> int | None:
    """Return how many bytes a value takes, if its type and shape tell."""
    shape, itemsize = static_shape(value), _itemsize(value)
    if shape is None or itemsize is None or not isinstance(value.type, ir.TensorType):
        return None
    return ceil(prod(shape) * itemsize)


def keeping(value: ir.Value) -> int:
    """Return what it costs to keep a value of each trip until the way back."""
    return round(ROW + ROW_BYTE * _bytes(value))


def work(node: ir.Node) -> int:
    """Return what it costs to run a node, beside what it costs to run any."""
    if subgraphs(node):
        trips = ASSUMED if is_loop(node) else 1
        return trips * sum(NODE + work(each) for graph in subgraphs(node) for each in graph)
    if is_standard(node, *VIEWS):
        return 0
    touched = node.outputs if is_standard(node, *PARTS) else (*node.inputs, *node.outputs)
    once = is_standard(node, *PASSES, *LOOKUPS, *PARTS, *PRODUCTS, *CONVOLUTIONS)
    per_byte = PASS_BYTE if once else OTHER_BYTE
    return round(per_byte * sum(map(_bytes, filter(None, touched))) + _arithmetic(node))


def _arithmetic(node: ir.Node) -> float:
    """Return what a node's elements cost."""
    result = _elements(node.outputs[0])
    if is_standard(node, *SLOW):
        return SLOW_ELEMENT * result
    if is_standard(node, *LOOKUPS):
        return INDEX * _elements(node.inputs[1])
    if is_standard(node, *PRODUCTS):
        # With m·k, k·n and m·n elements there are m·k·n multiplications.
        counts = [_elements(value) for value in (*node.inputs[:2], node.outputs[0])]
        return MULTIPLICATION * isqrt(prod(counts))
    if is_standard(node, *CONVOLUTIONS):
        weights = node.inputs[1]
        return MULTIPLICATION * result * _elements(weights) / max(1, *_dims(weights)[:1])
    return 0


def _dims(value: ir.Value | None) -> list[int]:
    if value is None:
        return [0]
    if value.shape is None:
        return [ASSUMED, ASSUMED]
    return [dim if isinstance(dim, int) else ASSUMED for dim in value.shape]


def _elements(value: ir.Value | None) -> int:
    return prod(_dims(value))


def _bytes(value: ir.Value) -> float:
    return _elements(value) * (_itemsize(value) or 4)


def _itemsize(value: ir.Value) -> float | None:
    sizeless = (None, ir.DataType.STRING, ir.DataType.UNDEFINED)
    return None if value.dtype is None or value.dtype in sizeless else value.dtype.itemsize

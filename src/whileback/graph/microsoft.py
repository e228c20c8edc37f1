"""Types and shapes of what ONNX Runtime's own quantised operators give.

Its other operators have definitions, and get theirs from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.graph.dims import same_dim

__all__ = ["MICROSOFT", "infer_quantized"]

MICROSOFT = "com.microsoft"

Dims = list[int | ir.SymbolicDim]
NewDim = Callable[[], ir.SymbolicDim]


def infer_quantized(node: ir.Node, new_dim: NewDim) -> None:
    """Give the output of a node of that domain its type and shape, if they are known."""
    infer = _SHAPES.get(node.op_type)
    if infer is None:
        return
    typed, output = _typed(node), node.outputs[0]
    if output.type is None and typed is not None and typed.dtype is not None:
        output.type = ir.TensorType(typed.dtype)
    dims = infer(node, new_dim)
    if output.shape is None and dims is not None:
        output.shape = ir.Shape(dims)


def _typed(node: ir.Node) -> ir.Value | None:
    """Return the input whose type the output has: a zero point of the output, or else the data."""
    for index in _TYPED.get(node.op_type, (0,)):
        if index < len(node.inputs) and node.inputs[index] is not None:
            return node.inputs[index]
    return None


# Zero points of outputs, and what tells the type where they are left out.
_TYPED = {
    "DequantizeLinear": (1,),
    "QGemm": (8, 1),
    "QLinearAdd": (7, 0),
    "QLinearConcat": (1,),
    "QLinearConv": (7,),
    "QLinearMul": (7, 0),
    "QLinearWhere": (8,),
    "QuantizeLinear": (2,),
}


def _dims(node: ir.Node, index: int) -> Dims | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None or value.shape is None else list(value.shape)


def _same(node: ir.Node, new_dim: NewDim) -> Dims | None:
    return _dims(node, 0)


def _broadcast(*indices: int) -> Callable[[ir.Node, NewDim], Dims | None]:
    def infer(node: ir.Node, new_dim: NewDim) -> Dims | None:
        shapes = [_dims(node, index) for index in indices]
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes):
            return None
        length = max(map(len, known))
        padded = [[*[1] * (length - len(shape)), *shape] for shape in known]
        return [_joined(dims, new_dim) for dims in zip(*padded, strict=True)]

    return infer


def _joined(dims: Sequence[int | ir.SymbolicDim], new_dim: NewDim) -> int | ir.SymbolicDim:
    larger = [dim for dim in dims if dim != 1]
    known = [dim for dim in larger if isinstance(dim, int)]
    if known or not larger:
        return (known or [1])[0]
    return larger[0] if all(same_dim(larger[0], dim) for dim in larger) else new_dim()


def _concat(node: ir.Node, new_dim: NewDim) -> Dims | None:
    dims = _dims(node, 2)
    if dims is not None:
        dims[node.attributes["axis"].as_int()] = new_dim()
    return dims


def _pool(node: ir.Node, new_dim: NewDim) -> Dims | None:
    """Batch and channels stay."""
    dims = _dims(node, 0)
    if dims is None:
        return None
    channels = len(dims) - 1 if node.attributes.get_int("channels_last", 0) else 1
    return [dim if axis in (0, channels) else new_dim() for axis, dim in enumerate(dims)]


def _conv(node: ir.Node, new_dim: NewDim) -> Dims | None:
    dims, filters = _pool(node, new_dim), _dims(node, 3)
    if dims is not None and filters is not None:
        dims[-1 if node.attributes.get_int("channels_last", 0) else 1] = filters[0]
    return dims


def _gemm(node: ir.Node, new_dim: NewDim) -> Dims | None:
    A, B = _dims(node, 0), _dims(node, 3)
    if A is None or B is None:
        return [new_dim(), new_dim()]
    rows, columns = node.attributes.get_int("transA", 0), node.attributes.get_int("transB", 0)
    return [A[1 if rows else 0], B[0 if columns else 1]]


_SHAPES: dict[str, Callable[[ir.Node, NewDim], Dims | None]] = {
    "DequantizeLinear": _same,
    "QGemm": _gemm,
    "QLinearAdd": _broadcast(0, 3),
    "QLinearAveragePool": _pool,
    "QLinearConcat": _concat,
    "QLinearConv": _conv,
    "QLinearGlobalAveragePool": _pool,
    "QLinearLeakyRelu": _same,
    "QLinearMul": _broadcast(0, 3),
    "QLinearSigmoid": _same,
    "QLinearSoftmax": _same,
    "QLinearWhere": _broadcast(0, 1, 4),
    "QuantizeLinear": _same,
}

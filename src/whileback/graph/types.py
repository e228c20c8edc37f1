"""Element types of outputs, from what an operator's schema says of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx_ir as ir

__all__ = ["FLOATS", "HALVES", "NARROW", "NARROW_FLOATS", "complete_types"]

FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)
# Those of 16 bits, in which sums of many elements or squares are lost.
HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
# What floats are rounded to in quantised models, and what products of such numbers are added up in.
NARROW_FLOATS = frozenset(
    dtype for dtype in ir.DataType if dtype.name.startswith(("FLOAT4", "FLOAT6", "FLOAT8"))
)
NARROW = NARROW_FLOATS | {
    ir.DataType[name] for name in "INT2 UINT2 INT4 UINT4 INT8 UINT8 INT16 UINT16 INT32".split()
}


def complete_types(node: ir.Node, version: int) -> None:
    """Give the outputs that have no type one, where the schema says which input's type it is.

    The inference of shapes leaves out the type as well where it cannot tell the shape: that of
    `Reshape` to a shape whose length is unknown, for one.
    """
    untyped = [value for value in node.outputs if value.type is None]
    if not untyped or not onnx.defs.has(node.op_type, version, node.domain):
        return
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    known = {
        _formal(schema.inputs, index).type_str: value.dtype
        for index, value in enumerate(node.inputs)
        if value is not None and isinstance(value.type, ir.TensorType)
    }
    for value in untyped:
        dtype = known.get(_formal(schema.outputs, value.index() or 0).type_str)
        if dtype is not None:
            value.type = ir.TensorType(dtype)


def _formal(
    parameters: Sequence[onnx.defs.OpSchema.FormalParameter], index: int
) -> onnx.defs.OpSchema.FormalParameter:
    """Return the formal parameter at a position; the last one may stand for any number."""
    return parameters[min(index, len(parameters) - 1)]

"""The types of the elements of blobs, as far as the operators alone tell them."""

from __future__ import annotations

from collections.abc import Sequence

from whileback.caffe2.operators.casts import FLOATS, type_argument
from whileback.caffe2.operators.fills import filled_type
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef, TensorProto

__all__ = ["may_be_float", "result_types"]

# Operators whose results are of one type, whatever they read.
FIXED = {
    **dict.fromkeys("EQ NE LT LE GT GE And Or Xor Not IsNan HasScope HasElements".split(), "BOOL"),
    **dict.fromkeys("IsEmpty IsMemberOf GivenTensorBoolFill".split(), "BOOL"),
    **dict.fromkeys("Shape Size ArgMax ArgMin GivenTensorInt64Fill".split(), "INT64"),
    **dict.fromkeys("LengthsToSegmentIds LengthsToRanges SegmentIdsToLengths".split(), "INT32"),
    **dict.fromkeys("GivenTensorIntFill UniformIntFill LengthsRangeFill".split(), "INT32"),
    **dict.fromkeys("GivenTensorInt16Fill".split(), "INT16"),
    **dict.fromkeys("GivenTensorStringFill".split(), "STRING"),
    **dict.fromkeys("GivenTensorDoubleFill".split(), "DOUBLE"),
    **dict.fromkeys("GaussianFill XavierFill MSRAFill UniformFill HalfToFloat".split(), "FLOAT"),
    **dict.fromkeys("FloatToHalf Float16ConstantFill Float16UniformFill".split(), "FLOAT16"),
}

# Operators that read tensors of one type and whose first result is of it, too.
JOINING = set("Add Sub Mul Div Sum Max Min Mod Concat Append".split())
# Operators whose first result is of the type of their first input.
KEEPING = set(
    "Copy StopGradient Alias Negative Abs Sqr Scale Clip Reshape ResizeLike Squeeze ExpandDims "
    "Flatten FlattenToVec Transpose Slice Split Tile Gather BatchGather Expand EnsureDense "
    "ReduceSum ReduceMax ReduceMin ReduceMean SumElements NCHW2NHWC NHWC2NCHW".split()
)


def result_types(op: OperatorDef, inputs: Sequence[int | None]) -> list[int | None]:
    """Return the types of an operator's results, None where they are not known."""
    count = len(op.output)
    if op.type in FIXED:
        return [TensorProto.DataType.Value(FIXED[op.type])] * count
    if op.type == "Cast":
        return [type_argument(op, "to", TensorProto.FLOAT)]
    if op.type in ("ConstantFill", "GivenTensorFill"):
        return [filled_type(op)] * count
    known = _read_type(op.type, inputs)
    # Further results are sizes, or shapes as they were before.
    rest = known if op.type == "Split" else TensorProto.INT64
    return [known, *[rest if known is not None else None] * (count - 1)][:count]


def _read_type(op_type: str, inputs: Sequence[int | None]) -> int | None:
    """Return the type of what an operator reads, where its result is of the same one."""
    if op_type in JOINING:
        return next((dtype for dtype in inputs if dtype is not None), None)
    return inputs[0] if op_type in KEEPING and inputs else None


def may_be_float(dtype: int | None) -> bool:
    """Tell whether elements of a type, or of an unknown one, can have a gradient."""
    return dtype is None or dtype in FLOATS

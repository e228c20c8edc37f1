"""Copies, and operators that matter only to gradients, to devices or to who watches."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

not_differentiable("it is there to stop the gradient", "StopGradient", "ZeroGradient")
not_differentiable("it only looks at its input", "Assert", "EnforceFinite", "Print")


@lowering(
    *("Alias", "AliasWithName", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU"),
    *("CopyOnDeviceLike", "EnsureCPUOutput", "EnsureDense", "NanCheck"),
)
def copy(_: Emitter, node: Operator) -> ir.Value:
    """Y = X."""
    return node.tensors(1)[0]


@lowering("NegateGradient", "StopGradient")
def marked(op: Emitter, node: Operator) -> ir.Value:
    """Y = X, marked as what has another gradient than a copy, or none."""
    (X,) = node.tensors(1)
    return op.standing_for(node.type, X)


@lowering("Assert", "EnforceFinite", "Print", "ZeroGradient")
def nothing(_: Emitter, __: Operator) -> None:
    """Compute nothing, as there is no output; what was to be checked is not."""


@gradient_operator("Alias", "AliasWithName", "Copy", "EnsureDense", "NanCheck")
def copy_maker(_: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dY."""
    return [dys[0]] + [None] * (len(op.input) - 1)


@gradient_operator("CopyFromCPUInput", "CopyOnDeviceLike", "EnsureCPUOutput")
def device_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = dY, brought to where X is."""
    X = op.input[0]
    return [grad.add("CopyOnDeviceLike", [dys[0], X], f"{X}_grad")] + [None] * (len(op.input) - 1)


@gradient_operator("CopyCPUToGPU")
def to_gpu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY, brought back to the CPU."""
    return grad.emit("CopyGPUToCPU", dys, of=op.input, like=op)


@gradient_operator("CopyGPUToCPU")
def to_cpu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY, brought back to the GPU."""
    return grad.emit("CopyCPUToGPU", dys, of=op.input, like=op)


@gradient_operator("NegateGradient")
def negate_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = -dY, though Y = X."""
    return grad.emit("Negative", dys, of=op.input, like=op)

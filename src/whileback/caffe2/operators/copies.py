"""Copies, and operators that matter only to gradients."""

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

not_differentiable("it is there to stop the gradient", "StopGradient")


@lowering("Copy", "StopGradient")
def copy(_: Emitter, node: Operator) -> ir.Value:
    """Y = X."""
    return node.tensors(1)[0]


@gradient_operator("Copy")
def copy_maker(_: Gradients, __: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY."""
    return [dys[0]]

"""Gradient operators that are told of in one line: what they read, and what they give.

Those that read what their forward operator reads are what the pullback of its lowering is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    GradientMaker,
    Gradients,
    Lowering,
    Operator,
    gradient_operator,
    lowering,
    lowerings,
)
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

__all__ = ["output_gradients", "replayed_gradient"]


def replayed_gradient(reads: str, gives: str, *types: str) -> None:
    """Register the makers that emit `<type>Gradient`, and its lowerings.

    One that does not read the inputs whose gradients it gives has a lowering elsewhere.

    Args:
        reads: what the gradient operator takes, in its order: "X0", "X1" … stand for the forward
            operator's inputs, "Y0" … for its outputs, "dY0" … for the gradients of those; "X2?"
            is left out where the forward operator was not given that input.
        gives: the inputs whose gradients it returns: "X0 X1".
        types: the forward operators.
    """
    order, given = reads.replace("?", "").split(), gives.split()
    gradient_operator(*types)(_maker(reads.split(), order, given))
    if set(given) <= set(order):
        needed = len(order) - reads.count("?")
        lowering(*(f"{op_type}Gradient" for op_type in types))(_lowering(order, given, needed))


def _maker(reads: Sequence[str], order: Sequence[str], given: Sequence[str]) -> GradientMaker:
    def maker(grad: Gradients, op: OperatorDef, dys: Sequence[Any]) -> list[str | None]:
        blobs = {f"X{k}": name for k, name in enumerate(op.input)}
        blobs |= {f"Y{k}": name for k, name in enumerate(op.output)}
        count = sum(name.startswith("d") for name in order)
        blobs |= {f"dY{k}": dy for k, dy in enumerate(output_gradients(grad, op, dys, count))}
        for name in reads:
            if name not in blobs and not name.endswith("?"):
                raise UnsupportedError(
                    f"{label(op)}: its gradient is computed from its output {name[1:]}, which it "
                    "was not given. Name one."
                )
        inputs = [blobs[name] for name in order if name in blobs]
        found = grad.emit(f"{op.type}Gradient", inputs, of=[blobs[x] for x in given], like=op)
        gradients = dict(zip(given, found, strict=True))
        return [gradients.get(f"X{k}") for k in range(len(op.input))]

    return maker


def _lowering(order: Sequence[str], given: Sequence[str], needed: int) -> Lowering:
    def gradient(op: Emitter, node: Operator) -> list[ir.Value]:
        values = dict(zip(order, node.tensors(max(needed, len(node.inputs))), strict=False))
        read = sorted(name for name in values if name.startswith("X"))
        dys = [values[name] for name in sorted(values) if name.startswith("d")]
        names = dict(zip(order, node.proto.input, strict=False))
        blobs = [names[name] for name in read]

        def function(op: Emitter, *own: ir.Value) -> Any:
            inputs = values | dict(zip(given, own, strict=True))
            forward = node.forward(blobs, [inputs[name] for name in read], len(dys))
            return lowerings[forward.type](op, forward)

        return op.pullback(function, [values[name] for name in given], dys)

    return gradient


def output_gradients(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None], count: int = 1
) -> list[str]:
    """Return the gradients of the first outputs, zeros for one that none flows into.

    Raises: UnsupportedError if one flows into another output.
    """
    for name, dy in zip(op.output[count:], dys[count:], strict=True):
        if dy is not None:
            raise UnsupportedError(
                f"{label(op)}: no gradient is known of its output '{name}', on which the result "
                f"depends. Compute '{name}' by an operator of its own."
            )
    pairs = zip(op.output[:count], dys[:count], strict=True)
    return [dy or grad.zeros_like(name) for name, dy in pairs]

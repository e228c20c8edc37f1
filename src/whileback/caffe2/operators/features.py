"""What prepares features for a model: encodings, transformed columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import (
    Gradients,
    Operator,
    gradient_operator,
    lowering,
    not_differentiable,
)
from whileback.caffe2.operators.shapes import count_argument
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

not_differentiable("positions are integers", "SinusoidPositionEncoding")


@lowering("SinusoidPositionEncoding")
def sinusoid_position_encoding(op: Emitter, node: Operator) -> ir.Value:
    """Y[i, j, k] = amplitude·sin(X[i, 0]·alpha^(-k/size)), with cos for odd k.

    As in Caffe2, the first position of a row holds for all of it.
    """
    (X,) = node.tensors(1)
    size, alpha = count_argument(node, "embedding_size", 100), node.args.float("alpha", 10000.0)
    places = np.arange(size)
    frequencies = op.constant(alpha ** (-places / size), ir.DataType.FLOAT)
    first = op.Expand(op.Slice(X, [0], [1], [1]), op.shape_of(X))
    angles = op.Mul(op.Unsqueeze(op.cast(first, ir.DataType.FLOAT), [-1]), frequencies)
    waves = op.Where(op.constant(places % 2 == 0), op.Sin(angles), op.Cos(angles))
    return op.Mul(waves, node.args.float("amplitude", 1.0))


@lowering("BatchBoxCox")
def batch_box_cox(op: Emitter, node: Operator) -> ir.Value:
    """Y = (x^a - 1)/a, ln x for a = 0, where x = max(X + b, 1e-6); a and b are of columns."""
    X, a, b = node.tensors(3)
    x = op.Max(op.Add(X, b), op.constant(1e-6, X.dtype))
    plain = op.Equal(a, op.constant(0.0, X.dtype))
    exponent = op.Where(plain, 1.0, a)
    return op.Where(plain, op.Log(x), op.Div(op.Sub(op.Pow(x, exponent), 1.0), exponent))


@lowering("QuantDecode")
def quant_decode(op: Emitter, node: Operator) -> list[ir.Value]:
    """Y = codebook[codes], for each tensor of codes."""
    codebook, *codes = node.tensors(len(node.inputs))
    return [op.Gather(codebook, op.cast(each, ir.DataType.INT64)) for each in codes]


@lowering("QuantDecodeGradient")
def quant_decode_gradient(op: Emitter, node: Operator) -> ir.Value:
    """The codebook's gradient: each entry gets the sum of those decoded from it."""
    codebook, *rest = node.tensors(len(node.inputs))
    codes, cotangents = rest[: len(rest) // 2], rest[len(rest) // 2 :]

    def forward(op: Emitter, codebook: ir.Value) -> list[ir.Value]:
        return [op.Gather(codebook, op.cast(each, ir.DataType.INT64)) for each in codes]

    return op.pullback(forward, [codebook], cotangents)[0]


@gradient_operator("QuantDecode")
def quant_decode_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """The codebook's gradient = QuantDecodeGradient(codebook, codes …, dY …)."""
    codebook, *codes = op.input
    flows = [(each, dY) for each, dY in zip(codes, dys, strict=True) if dY is not None]
    inputs = [codebook, *(each for each, _ in flows), *(dY for _, dY in flows)]
    return [*grad.emit("QuantDecodeGradient", inputs, of=[codebook], like=op)] + [None] * len(codes)

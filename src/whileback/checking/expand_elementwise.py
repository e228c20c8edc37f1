"""Expansions of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from whileback.checking.expansion import Expansion, float_attribute, known_rank
from whileback.graph.builder import Builder
from whileback.graph.shapes import is_float

__all__ = [
    "ELEMENTWISE",
    "elu",
    "hard_sigmoid",
    "leaky_relu",
    "softplus",
    "softsign",
    "thresholded_relu",
]


def softplus(op: Builder, x: ir.Value) -> ir.Value:
    """Log(1 + exp(x)), without overflow."""
    return op.Add(op.Relu(x), op.Log(op.Add(op.Exp(op.Neg(op.Abs(x))), 1.0)))


def softsign(op: Builder, x: ir.Value) -> ir.Value:
    """x / (1 + |x|)."""
    return op.Div(x, op.Add(op.Abs(x), 1.0))


def elu(op: Builder, x: ir.Value, alpha: float = 1.0, gamma: float = 1.0) -> ir.Value:
    """γ·x above zero, γ·α·(exp(x) - 1) below."""
    below = op.Mul(op.Sub(op.Exp(op.Min(x, 0.0)), 1.0), alpha)
    return op.Mul(op.Add(op.Relu(x), below), gamma)


def _celu(op: Builder, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    """The number itself above zero, α·(exp(x/α) - 1) below."""
    return op.Mul(elu(op, op.Div(x, alpha)), alpha)


def leaky_relu(op: Builder, x: ir.Value, alpha: float = 0.01) -> ir.Value:
    """The number itself above zero, α·x below."""
    return op.Sub(op.Relu(x), op.Mul(op.Relu(op.Neg(x)), alpha))


def hard_sigmoid(op: Builder, x: ir.Value, alpha: float = 0.2, beta: float = 0.5) -> ir.Value:
    """The line α·x + β, cut off at 0 and 1."""
    return op.Min(op.Max(op.Add(op.Mul(x, alpha), beta), 0.0), 1.0)


def thresholded_relu(op: Builder, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    """The number itself where it is above α, else 0."""
    return op.Where(op.Greater(x, alpha), x, op.constant(0.0, x.dtype))


def _shrink(op: Builder, x: ir.Value, lambd: float = 0.5, bias: float = 0.0) -> ir.Value:
    """The number moved towards zero by the bias where it is beyond ±λ, else 0."""
    below = op.Where(op.Less(x, -lambd), op.Add(x, bias), op.constant(0.0, x.dtype))
    return op.Where(op.Greater(x, lambd), op.Sub(x, bias), below)


def _erf(op: Builder, x: ir.Value) -> ir.Value:
    """2x/√π · ∫ exp(-x²t²) dt over [0, 1], by the Gauss-Legendre rule.

    Beyond 6 the result is 1 to the last digit, and up to there 48 nodes give all digits.
    """
    nodes, weights = np.polynomial.legendre.leggauss(48)
    near = op.Min(op.Max(x, -6.0), 6.0)
    scaled = op.Mul(op.Unsqueeze(near, [-1]), (nodes + 1) / 2)
    terms = op.Mul(op.Exp(op.Neg(op.Mul(scaled, scaled))), weights / math.sqrt(math.pi))
    return op.Mul(near, op.ReduceSum(terms, [-1], keepdims=0))


def _angle(op: Builder, rough: ir.Value, sine: ir.Value, cosine: ir.Value) -> ir.Value:
    """Polish an angle that is right to seven digits: Newton's step on its sine and cosine."""
    s, c = op.Sin(rough), op.Cos(rough)
    across = op.Sub(op.Mul(s, cosine), op.Mul(c, sine))
    along = op.Add(op.Mul(c, cosine), op.Mul(s, sine))
    return op.Sub(rough, op.Div(across, along))


def _rough(op: Builder, op_type: str, x: ir.Value) -> ir.Value:
    """Apply an operator in float32."""
    narrow = op.Cast(x, to=int(ir.DataType.FLOAT))
    return op.Cast(op.emit(op_type, [narrow])[0], to=int(ir.DataType.DOUBLE))


def _other_leg(op: Builder, x: ir.Value) -> ir.Value:
    """√(1 - x²)."""
    return op.Sqrt(op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))


def _asin(op: Builder, x: ir.Value) -> ir.Value:
    return _angle(op, _rough(op, "Asin", x), x, _other_leg(op, x))


def _acos(op: Builder, x: ir.Value) -> ir.Value:
    return _angle(op, _rough(op, "Acos", x), _other_leg(op, x), x)


def _atan(op: Builder, x: ir.Value) -> ir.Value:
    return _angle(op, _rough(op, "Atan", x), x, op.Add(op.Mul(x, 0.0), 1.0))


def _tan(op: Builder, x: ir.Value) -> ir.Value:
    return op.Div(op.Sin(x), op.Cos(x))


def _sinh(op: Builder, x: ir.Value) -> ir.Value:
    return op.Mul(op.Sub(op.Exp(x), op.Exp(op.Neg(x))), 0.5)


def _cosh(op: Builder, x: ir.Value) -> ir.Value:
    return op.Mul(op.Add(op.Exp(x), op.Exp(op.Neg(x))), 0.5)


def _asinh(op: Builder, x: ir.Value) -> ir.Value:
    size = op.Abs(x)
    return op.Mul(op.Sign(x), op.Log(op.Add(size, op.Sqrt(op.Add(op.Mul(x, x), 1.0)))))


def _acosh(op: Builder, x: ir.Value) -> ir.Value:
    return op.Log(op.Add(x, op.Sqrt(op.Mul(op.Sub(x, 1.0), op.Add(x, 1.0)))))


def _atanh(op: Builder, x: ir.Value) -> ir.Value:
    return op.Mul(op.Log(op.Div(op.Add(x, 1.0), op.Sub(1.0, x))), 0.5)


def _hard_swish(op: Builder, x: ir.Value) -> ir.Value:
    return op.Mul(x, hard_sigmoid(op, x, 1 / 6, 0.5))


def _mish(op: Builder, x: ir.Value) -> ir.Value:
    return op.Mul(x, op.Tanh(softplus(op, x)))


def _swish(op: Builder, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    return op.Mul(x, op.Sigmoid(op.Mul(x, alpha)))


def _gelu(op: Builder, x: ir.Value, approximate: str = "none") -> ir.Value:
    half = op.Mul(x, 0.5)
    if approximate == "none":
        return op.Mul(half, op.Add(_erf(op, op.Mul(x, math.sqrt(0.5))), 1.0))
    inner = op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715))
    return op.Mul(half, op.Add(op.Tanh(op.Mul(inner, math.sqrt(2 / math.pi))), 1.0))


def _mean(op: Builder, _: ir.Node, *terms: ir.Value) -> Sequence[ir.Value]:
    total = op.emit("Sum", terms)[0]
    return [op.Div(total, float(len(terms)))]


def _prelu(op: Builder, _: ir.Node, x: ir.Value, slope: ir.Value) -> Sequence[ir.Value]:
    return [op.Sub(op.Relu(x), op.Mul(op.Relu(op.Neg(x)), slope))]


def _hardmax(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    """One at the first maximum along the axis, zero elsewhere."""
    axis = node.attributes.get_int("axis", -1)
    first = op.ArgMax(x, axis=axis, keepdims=1)
    positions = op.Sub(op.CumSum(op.Expand(1, op.Shape(x)), axis), 1)
    return [op.Cast(op.Equal(positions, first), to=int(ir.DataType.DOUBLE))]


def _one_hot(
    op: Builder, node: ir.Node, indices: ir.Value, depth: ir.Value, values: ir.Value
) -> Sequence[ir.Value]:
    """`values[1]` at the indices, `values[0]` elsewhere: a gather of rows of 0 and 1."""
    axis = node.attributes.get_int("axis", -1)
    size = op.Reshape(op.Cast(depth, to=int(ir.DataType.INT64)), [])
    chosen = op.Unsqueeze(op.Cast(indices, to=int(ir.DataType.INT64)), [axis])
    positive = op.Where(op.Less(chosen, 0), op.Add(chosen, size), chosen)
    behind = -1 - axis if axis < 0 else op.Sub(op.Size(op.Shape(positive)), 1 + axis)
    trailing = op.Expand(1, op.Reshape(behind, [1]))
    classes = op.Reshape(op.Range(0, size, 1), op.Concat([-1], trailing, axis=0))
    hit = op.Cast(op.Equal(positive, classes), to=int(ir.DataType.INT64))
    return [op.Gather(values, hit)]


def _mod(op: Builder, node: ir.Node, x: ir.Value, y: ir.Value) -> Sequence[ir.Value]:
    """The remainder with the sign of y: y more than the one with the sign of x, if that differs.

    Before opset 28 ONNX Runtime had only the latter for floats.
    """
    if node.attributes.get_int("fmod", 0) or not is_float(x):
        return []
    rest, zero = op.Mod(x, y, fmod=1), op.constant(0.0, x.dtype)
    differs = op.Less(op.Mul(op.Sign(rest), op.Sign(y)), zero)
    return [op.Where(differs, op.Add(rest, y), rest)]


def _non_zero(op: Builder, _: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    return [op.NonZero(op.Cast(x, to=int(ir.DataType.BOOL)))]


def _dequantize(
    op: Builder, node: ir.Node, x: ir.Value, scale: ir.Value, zero: ir.Value | None = None
) -> Sequence[ir.Value]:
    """(x - zero point)·scale, with one scale per tensor, per slice of an axis, or per block."""
    wide = op.Cast(x, to=int(ir.DataType.DOUBLE))
    if zero is not None:
        zero = op.Cast(zero, to=int(ir.DataType.DOUBLE))
        wide = op.Sub(wide, _spread(op, node, x, zero))
    return [op.Mul(wide, _spread(op, node, x, scale))]


def _spread(op: Builder, node: ir.Node, x: ir.Value, value: ir.Value) -> ir.Value:
    """Bring a scale or zero point to a shape that broadcasts to the tensor."""
    rank, axis = known_rank(x), node.attributes.get_int("axis", 1)
    block = node.attributes.get_int("block_size", 0)
    if block:
        size = op.Reshape(op.dim(x, axis % rank), [])
        return op.Gather(value, op.Div(op.Range(0, size, 1), block), axis=axis)
    if known_rank(value) == 0 or rank == 1:
        return value
    return op.Reshape(value, [-1 if index == axis % rank else 1 for index in range(rank)])


def _unary(function: Callable[..., ir.Value], **defaults: float | str) -> Expansion:
    """Return the expansion of an operator with one input and these attributes."""

    def expansion(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
        given = {
            name: node.attributes.get_string(name, default)
            if isinstance(default, str)
            else float_attribute(node, name, default)
            for name, default in defaults.items()
        }
        return [function(op, x, **given)]

    return expansion


ELEMENTWISE: dict[str, Expansion] = {
    "Acos": _unary(_acos),
    "Acosh": _unary(_acosh),
    "Asin": _unary(_asin),
    "Asinh": _unary(_asinh),
    "Atan": _unary(_atan),
    "Atanh": _unary(_atanh),
    "Celu": _unary(_celu, alpha=1.0),
    "Cosh": _unary(_cosh),
    "DequantizeLinear": _dequantize,
    "Elu": _unary(elu, alpha=1.0),
    "Erf": _unary(_erf),
    "Gelu": _unary(_gelu, approximate="none"),
    "HardSigmoid": _unary(hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": _unary(_hard_swish),
    "Hardmax": _hardmax,
    "LeakyRelu": _unary(leaky_relu, alpha=0.01),
    "Mean": _mean,
    "Mish": _unary(_mish),
    "Mod": _mod,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "PRelu": _prelu,
    "Selu": _unary(elu, alpha=1.6732632, gamma=1.0507010),
    "Shrink": _unary(_shrink, lambd=0.5, bias=0.0),
    "Sinh": _unary(_sinh),
    "Softplus": _unary(softplus),
    "Softsign": _unary(softsign),
    "Swish": _unary(_swish, alpha=1.0),
    "Tan": _unary(_tan),
    "ThresholdedRelu": _unary(thresholded_relu, alpha=1.0),
}

"""Numbers of few bits, and what they stand for: (x - zero point) · scale."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.interpret import exact
from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.numbers import is_integer, least, most
from whileback.engines.xla.operators.tensor.casts import converted
from whileback.engines.xla.registry import Function, lowering
from whileback.engines.xla.rows import Rows

__all__: list[str] = []


def _spread(op: Operator, parameter: Any, X: Any) -> Any:
    """Return a scale or zero point for all of X, for each place on an axis, or for blocks of it."""
    axis, block = op.integer("axis", 1), op.integer("block_size", 0)
    if block:
        repeated = jnp.repeat(parameter, block, axis)
        return jnp.take(repeated, np.arange(X.shape[axis]), axis)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if k == axis % X.ndim else 1 for k in range(X.ndim)])


def _by_rows(function: Function) -> Function:
    """Return how rows are taken: each for itself, unless they have scales of their own."""

    def on_rows(op: Operator, X: Any, scale: Any, zero_point: Any = None) -> Any:
        has_one = scale.size == 1 if not isinstance(scale, Rows) else False
        along_others = op.integer("axis", 1) % X.ndim and not op.integer("block_size", 0)
        if isinstance(X, Rows) and (has_one or along_others):
            return X.like(function(op, X.buffer, scale, zero_point))
        return function(op, *(exact(op.trace, operand) for operand in (X, scale, zero_point)))

    return on_rows


def _quantize_linear(op: Operator, X: Any, y_scale: Any, y_zero_point: Any = None) -> Any:
    """Y = X / scale, rounded to even, + zero point, within what the type holds."""
    precision = y_scale.dtype if y_scale.dtype.itemsize > 1 else np.float32
    if chosen := op.integer("precision", 0):
        precision = ir.DataType(chosen).numpy()
    ratio = X.astype(precision) / _spread(op, y_scale, X).astype(precision)
    zero_point = None if y_zero_point is None else _spread(op, y_zero_point, X)
    return _quantized(op, ratio, zero_point)


lowering("QuantizeLinear", rows=_by_rows(_quantize_linear))(_quantize_linear)


def _quantized(op: Operator, ratio: Any, zero_point: Any) -> Any:
    dtype = op.dtype()
    offset = np.float32(0) if zero_point is None else zero_point.astype(np.float32)
    if not is_integer(dtype):
        return converted(jnp, ratio + offset, dtype, bool(op.integer("saturate", 1)))
    whole = jnp.rint(ratio).astype(np.float32) + offset
    return jnp.clip(whole, least(dtype), most(dtype)).astype(dtype)


def _dequantize_linear(op: Operator, X: Any, x_scale: Any, x_zero_point: Any = None) -> Any:
    """Y = (X - zero point) · scale."""
    zero_point = None if x_zero_point is None else _spread(op, x_zero_point, X)
    shifted = _shifted(X, zero_point).astype(np.float32)
    return (shifted * _spread(op, x_scale, X).astype(np.float32)).astype(op.dtype())


lowering("DequantizeLinear", rows=_by_rows(_dequantize_linear))(_dequantize_linear)


def _shifted(X: Any, zero_point: Any) -> Any:
    """Return X - zero point, in a type that holds it."""
    wide = np.int32 if is_integer(X.dtype) else np.float32
    return X.astype(wide) - (0 if zero_point is None else zero_point.astype(wide))


def _of_rows(parameter: Any) -> Any:
    """Return a scale or zero point, of which a vector has one for each row of a matrix."""
    return parameter[:, None] if parameter is not None and parameter.ndim == 1 else parameter


@lowering("MatMulInteger")
def matmul_integer(
    op: Operator, A: Any, B: Any, a_zero_point: Any = None, b_zero_point: Any = None
) -> Any:
    """Y = (A - zero point) · (B - zero point)."""
    return jnp.matmul(_shifted(A, _of_rows(a_zero_point)), _shifted(B, b_zero_point))


@lowering("QLinearMatMul")
def q_linear_matmul(
    op: Operator,
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
) -> Any:
    """The product of what a and b stand for, as numbers of few bits."""
    scale = _of_rows(a_scale).astype(np.float32) * b_scale / _of_rows(y_scale)
    product = matmul_integer(op, a, b, a_zero_point, b_zero_point)
    return _quantized(op, product * scale, _of_rows(y_zero_point))

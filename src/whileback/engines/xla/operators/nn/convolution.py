"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import batched, widened
from whileback.engines.xla.operators.nn.windows import Axis, halves, window_axes
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _conv(op: Operator, X: Any, W: Any, B: Any = None) -> Any:
    axes = window_axes(op, X.shape[2:], W.shape[2:])
    Y = jax.lax.conv_general_dilated(
        jnp.asarray(X),
        jnp.asarray(W),
        window_strides=[axis.stride for axis in axes],
        padding=[(axis.begin, axis.end) for axis in axes],
        rhs_dilation=[axis.dilation for axis in axes],
        feature_group_count=op.integer("group", 1),
        precision=jax.lax.Precision.HIGHEST,
    )
    return Y if B is None else Y + _of_channels(B, Y.ndim)


def _of_channels(B: Any, rank: int) -> Any:
    """Return one number for each channel, shaped to be broadcast."""
    return jnp.reshape(B, (-1, *(1,) * (rank - 2)))


def _convolution(op: Operator, X: Any, W: Any, B: Any = None) -> Any:
    """Y = X ∗ W + B, over windows of X."""
    wide = [None if array is None else widened(array) for array in (X, W, B)]
    return _conv(op, *wide).astype(op.dtype())


lowering("Conv", rows=batched(_convolution))(_convolution)


def _conv_integer(
    op: Operator, X: Any, W: Any, x_zero_point: Any = None, w_zero_point: Any = None
) -> Any:
    """Y = (X - x₀) ∗ (W - w₀) in int32; paddings stand for x₀."""
    return _conv(op, *_centred(X, x_zero_point, W, w_zero_point))


def _centred(X: Any, x_zero_point: Any, W: Any, w_zero_point: Any) -> tuple[Any, Any]:
    X, W = jnp.asarray(X, jnp.int32), jnp.asarray(W, jnp.int32)
    if x_zero_point is not None:
        X = X - jnp.asarray(x_zero_point, jnp.int32).reshape(())
    if w_zero_point is not None:
        W = W - jnp.asarray(w_zero_point, jnp.int32).reshape(-1, *(1,) * (W.ndim - 1))
    return X, W


lowering("ConvInteger", rows=batched(_conv_integer))(_conv_integer)


def _qlinear_conv(
    op: Operator,
    x: Any,
    x_scale: Any,
    x_zero_point: Any,
    w: Any,
    w_scale: Any,
    w_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
    B: Any = None,
) -> Any:
    """y = round((x - x₀) ∗ (w - w₀)·x_scale·w_scale/y_scale) + y₀, as far as the type goes."""
    total = _conv(op, *_centred(x, x_zero_point, w, w_zero_point), B)
    factor = _of_channels(x_scale * w_scale / y_scale, total.ndim)
    y = jnp.rint(total * widened(factor)) + jnp.asarray(y_zero_point, jnp.float32).reshape(())
    limits = np.iinfo(op.dtype())
    return jnp.clip(y, limits.min, limits.max).astype(op.dtype())


lowering("QLinearConv", rows=batched(_qlinear_conv))(_qlinear_conv)


def _conv_transpose(op: Operator, X: Any, W: Any, B: Any = None) -> Any:
    """Y = what the convolution with W takes to X, transposed, applied to X; plus B."""
    X, W = widened(X), widened(W)
    axes = window_axes(op, X.shape[2:], W.shape[2:])
    Y = jax.lax.conv_general_dilated(
        X,
        _transposed(W, op.integer("group", 1)),
        window_strides=(1,) * len(axes),
        padding=_paddings(op, axes),
        lhs_dilation=[axis.stride for axis in axes],
        rhs_dilation=[axis.dilation for axis in axes],
        feature_group_count=op.integer("group", 1),
        precision=jax.lax.Precision.HIGHEST,
    )
    return (Y if B is None else Y + _of_channels(widened(B), Y.ndim)).astype(op.dtype())


lowering("ConvTranspose", rows=batched(_conv_transpose))(_conv_transpose)


def _transposed(W: Any, groups: int) -> Any:
    """Return the weights with input and output channels exchanged in each group, and reversed."""
    channels, filters, *kernel = W.shape
    parts = W.reshape(groups, channels // groups, filters, *kernel).swapaxes(1, 2)
    joined = parts.reshape(groups * filters, channels // groups, *kernel)
    return jnp.flip(joined, range(2, W.ndim))


def _paddings(op: Operator, axes: Sequence[Axis]) -> list[tuple[int, int]]:
    """Return what to add to X on both sides, once its elements stand `stride` apart."""
    extras = op.integers("output_padding", (0,) * len(axes))
    shape = op.integers("output_shape", ())[-len(axes) :] or (None,) * len(axes)
    auto_pad = op.text("auto_pad", "NOTSET")
    pads = []
    for axis, extra, wanted in zip(axes, extras, shape, strict=True):
        full = (axis.size - 1) * axis.stride + axis.extent
        begin, end = axis.begin, axis.end - extra
        if wanted is None and auto_pad.startswith("SAME"):
            # The specification has no minimum here; ONNX Runtime never adds to what is written.
            wanted = min(full + extra, axis.size * axis.stride)
        if wanted is not None:
            begin, _ = halves(max(full + extra - wanted, 0), auto_pad)
            end = full - wanted - begin
        pads.append((axis.extent - 1 - begin, axis.extent - 1 - end))
    return pads

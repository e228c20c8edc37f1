"""Fourier transforms. The last axis has real parts, or real and imaginary parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.axes import apart, from_front
from whileback.engines.xla.operators.numbers import wide_type
from whileback.engines.xla.registry import lowering

__all__: list[str] = []


def _axis(op: Operator, X: Any, dft_length: Any = None, axis: Any = None) -> int:
    return -2 if axis is None else int(op.static(axis, "axis").item())


def _dft(op: Operator, X: Any, dft_length: Any = None, axis: Any = None) -> Any:
    """The discrete Fourier transform along an axis, or its inverse."""
    along = from_front(_axis(op, X, dft_length, axis), X.ndim)
    length = None if dft_length is None else int(op.static(dft_length, "dft_length").item())
    is_onesided = bool(op.integer("onesided", 0))
    if not op.integer("inverse", 0):
        return _as_pairs(_spectrum(_as_numbers(X), length, along, is_onesided), X.dtype)
    if is_onesided:
        return jnp.fft.irfft(_as_numbers(X), length, along)[..., None].astype(X.dtype)
    return _as_pairs(jnp.fft.ifft(_as_numbers(X), length, along), X.dtype)


lowering("DFT", rows=apart(_dft, _axis))(_dft)


def _stft(
    op: Operator, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None
) -> Any:
    """The transforms of pieces of a signal, each times a window."""
    step, length = int(op.static(frame_step, "frame_step").item()), signal.shape[1]
    if frame_length is not None:
        length = int(op.static(frame_length, "frame_length").item())
    elif window is not None:
        length = window.shape[0]
    starts = np.arange(0, signal.shape[1] - length + 1, step)
    frames = _as_numbers(signal)[:, starts[:, None] + np.arange(length)]
    frames = frames if window is None else frames * window.astype(wide_type(window.dtype))
    return _as_pairs(_spectrum(frames, None, 2, bool(op.integer("onesided", 1))), signal.dtype)


lowering("STFT", rows=apart(_stft, lambda *_: 1))(_stft)


def _as_numbers(X: Any) -> jax.Array:
    """Return real or complex numbers, as there are real parts alone or imaginary ones too."""
    wide = jnp.asarray(X).astype(wide_type(X.dtype))
    return jax.lax.complex(wide[..., 0], wide[..., 1]) if X.shape[-1] == 2 else wide[..., 0]


def _as_pairs(X: jax.Array, dtype: Any) -> jax.Array:
    return jnp.stack([X.real, X.imag], -1).astype(dtype)


def _spectrum(signal: jax.Array, length: int | None, axis: int, is_onesided: bool) -> jax.Array:
    """Return the transform, or as much of it as has no mirror image if the signal is real."""
    length = signal.shape[axis] if length is None else length
    if jnp.iscomplexobj(signal):
        whole = jnp.fft.fft(signal, length, axis)
        return jax.lax.slice_in_dim(whole, 0, length // 2 + 1, axis=axis) if is_onesided else whole
    half = jnp.fft.rfft(signal, length, axis)
    if is_onesided:
        return half
    mirrored = jax.lax.slice_in_dim(half, 1, (length + 1) // 2, axis=axis)
    return jnp.concatenate([half, jnp.flip(mirrored, axis).conj()], axis)


@lowering("MelWeightMatrix")
def mel_weight_matrix(
    op: Operator,
    num_mel_bins: Any,
    dft_length: Any,
    sample_rate: Any,
    lower_edge_hertz: Any,
    upper_edge_hertz: Any,
) -> Any:
    """Triangles of height 1, as wide as what sounds equally far apart, a column for each."""
    bands = int(op.static(num_mel_bins, "num_mel_bins").item())
    size = int(op.static(dft_length, "dft_length").item())
    lower, upper = (2595 * jnp.log10(1 + X / 700) for X in (lower_edge_hertz, upper_edge_hertz))
    mels = lower + jnp.arange(bands + 2) * ((upper - lower) / (bands + 2))
    hertz = 700 * (10 ** (mels / 2595) - 1)
    corners = jnp.floor((size + 1) * hertz / sample_rate)
    left, top, right = corners[:-2], corners[1:-1], corners[2:]
    place = jnp.arange(size // 2 + 1)[:, None]
    up = jnp.where(left == top, 1, (place - left) / (top - left))
    down = jnp.where(place == top, 1, (right - place) / (right - top))
    triangles = jnp.where((left <= place) & (place <= top), up, 0)
    return jnp.where((top < place) & (place < right), down, triangles).astype(op.dtype())

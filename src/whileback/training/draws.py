"""Random numbers that a count determines: a run with the same seed draws the same ones.

The generators of a runtime start anew in each session, and nobody can say what they draw. Here
every draw is a function of the seed, the number of the call, the node, the trips of the loops
around it and the place in the tensor: these are the counter of Philox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.scopes import is_standard
from whileback.training.philox import high_word, low_word, philox, word

__all__ = ["Source", "draw", "draw_mask", "known_ratio"]

# Of a ratio, 16 bits count: a block of Philox has eight masks.
_STEPS = 1 << 16
_LEAST = 2.0**-15


@dataclass(frozen=True)
class Source:
    """Where the numbers of one node come from.

    Attributes:
        keys: of the rounds of Philox.
        call: the number of the call, below 2³², and 0: UINT64[2,1,1].
        place: which node, in which trips, UINT64[1,1], or in each of T trips, UINT64[T,1].
        trips: how many these are, INT64[1]; None for one.
    """

    keys: Sequence[ir.Value]
    call: ir.Value
    place: ir.Value
    trips: ir.Value | None = None

    def at(self, op: Builder, number: int) -> Source:
        """Return the source of the node of a number."""
        return replace(self, place=op.Add(self.place, word(op, number)))

    def words(self, op: Builder, size: ir.Value, each: int) -> ir.Value:
        """Return words for a size INT64[] of which each block of four is enough for `each`.

        Returns: UINT64[4,T,N], the words of N blocks.
        """
        count = op.Div(op.Add(size, each - 1), each)
        blocks = op.Cast(op.Range(0, count, 1), to=int(ir.DataType.UINT64))
        second = word(op, 0, 1)
        even = op.Add(op.Mul(blocks, word(op, 1, 0)), op.Mul(low_word(op, self.place), second))
        odd = op.Add(self.call, op.Mul(high_word(op, self.place), second))
        return op.Concat(*philox(op, even, odd, self.keys), axis=0)

    def shaped(self, op: Builder, numbers: ir.Value, shape: ir.Value) -> ir.Value:
        """Return the first numbers of each trip of [k,T,N] in a shape, or in T of it."""
        size = op.ReduceProd(shape, keepdims=1)
        if self.trips is None:
            return op.Reshape(op.Slice(op.Reshape(numbers, [-1]), [0], size), shape, allowzero=1)
        each = op.Mul(op.dim(numbers, 0), op.dim(numbers, 2))
        across = op.Transpose(numbers, perm=[1, 0, 2])
        rows = op.Reshape(across, op.Concat(self.trips, each, axis=0), allowzero=1)
        shape = op.Concat(self.trips, shape, axis=0)
        return op.Reshape(op.Slice(rows, [0], size, [1]), shape, allowzero=1)


def draw(
    op: Builder, node: ir.Node, source: Source, mask: ir.Value | None = None
) -> list[ir.Value]:
    """Return what stands for the outputs of a node that draws; `Dropout` may have its mask."""
    if is_standard(node, "Dropout"):
        return _dropout(op, node, source, mask)
    return [_DRAWING[node.op_type](op, node, source)]


def _dropout(op: Builder, node: ir.Node, source: Source, mask: ir.Value | None) -> list[ir.Value]:
    """Y = X·mask/(1 - ratio), and the mask; X and true where the run says that nothing trains."""
    X, ratio, training = [*node.inputs, None, None][:3]
    assert X is not None
    mask = draw_mask(op, ratio, op.shape_of(X), source) if mask is None else mask
    scale = _scale(op, ratio, X)
    if training is not None and training.const_value is None:
        mask = op.Or(mask, op.Not(training))
        scale = op.Where(training, scale, op.constant(1, X.dtype))
    return [op.Where(mask, op.Mul(X, scale), op.constant(0, X.dtype)), mask]


def draw_mask(op: Builder, ratio: ir.Value | None, shape: ir.Value, source: Source) -> ir.Value:
    """Return a mask BOOL of a shape, false as often as the ratio says, or one for each trip."""
    known = known_ratio(ratio)
    if known is not None:
        limit = word(op, round(known * _STEPS))
    else:
        units = op.Mul(_variable(op, ratio), float(_STEPS))
        limit = op.Cast(op.Round(units), to=int(ir.DataType.UINT64))
    words = source.words(op, op.ReduceProd(shape, keepdims=0), 8)
    upper = op.GreaterOrEqual(words, op.Mul(limit, word(op, _STEPS)))
    lower = op.GreaterOrEqual(op.BitwiseAnd(words, word(op, _STEPS - 1)), limit)
    return source.shaped(op, op.Concat(upper, lower, axis=0), shape)


def _scale(op: Builder, ratio: ir.Value | None, X: ir.Value) -> ir.Value:
    """Return 1/(1 - ratio), for a ratio of nearly 1 a number in 16 bits, too."""
    known = known_ratio(ratio)
    if known is not None:
        return op.constant(1 / max(1 - known, _LEAST), X.dtype)
    kept = op.Max(op.Sub(1.0, _variable(op, ratio)), _LEAST)
    return op.cast(op.Reciprocal(kept), X)


def _variable(op: Builder, ratio: ir.Value | None) -> ir.Value:
    """Return a ratio that a run gives; no gradient reaches it."""
    assert ratio is not None
    return op.standing_for("StopGradient", op.widened(ratio))


def known_ratio(ratio: ir.Value | None) -> float | None:
    """Return a ratio that no run can change, None for others; by default it is a half."""
    if ratio is None:
        return 0.5
    if ratio.is_graph_input() or ratio.const_value is None:
        return None
    return float(ratio.const_value.numpy().item())


def _uniform(op: Builder, shape: ir.Value, dtype: ir.DataType, source: Source) -> ir.Value:
    """Return numbers from [0, 1), multiples of 2⁻²⁴, or 2⁻³² if they are DOUBLE."""
    words = source.words(op, op.ReduceProd(shape, keepdims=0), 4)
    return _fraction(op, source.shaped(op, words, shape), dtype)


def _fraction(op: Builder, words: ir.Value, dtype: ir.DataType) -> ir.Value:
    if dtype == ir.DataType.DOUBLE:
        return op.Mul(op.Cast(words, to=int(dtype)), 2.0**-32)
    words = op.BitShift(words, word(op, 8), direction="RIGHT")
    return op.Mul(op.Cast(words, to=int(ir.DataType.FLOAT)), 2.0**-24)


def _random_uniform(op: Builder, node: ir.Node, source: Source) -> ir.Value:
    low, high = _float(node, "low", 0.0), _float(node, "high", 1.0)
    dtype = _dtype(node)
    numbers = _uniform(op, _shape(op, node), dtype, source)
    return op.cast(op.Add(op.Mul(numbers, high - low), low), dtype)


def _random_normal(op: Builder, node: ir.Node, source: Source) -> ir.Value:
    """√(-2·ln u)·cos(2πv) and ·sin(2πv) are two normal numbers (Box and Muller, 1958)."""
    shape, dtype = _shape(op, node), _dtype(node)
    words = source.words(op, op.ReduceProd(shape, keepdims=0), 4)
    halves = op.emit("Split", [words], {"axis": 0, "num_outputs": 2}, outputs=2)
    u, v = (_fraction(op, half, dtype) for half in halves)
    radius = op.Sqrt(op.Mul(op.Log(op.Sub(1.0, u)), -2.0))
    angle = op.Mul(v, 2 * float(np.pi))
    pairs = [op.Mul(radius, op.Cos(angle)), op.Mul(radius, op.Sin(angle))]
    numbers = source.shaped(op, op.Concat(*pairs, axis=0), shape)
    numbers = op.Mul(numbers, _float(node, "scale", 1.0))
    return op.cast(op.Add(numbers, _float(node, "mean", 0.0)), dtype)


def _bernoulli(op: Builder, node: ir.Node, source: Source) -> ir.Value:
    P = op.widened(_input(node))
    uniform = _uniform(op, op.shape_of(P), P.dtype or ir.DataType.FLOAT, source)
    return op.cast(op.Less(uniform, P), _dtype(node))


def _multinomial(op: Builder, node: ir.Node, source: Source) -> ir.Value:
    """The first class up to which the probabilities add up to more than a uniform number."""
    X = op.widened(_input(node))
    below = op.Unsqueeze(op.CumSum(op.Softmax(X, axis=-1), op.constant(1)), [1])
    samples = node.attributes.get_int("sample_size", 1)
    shape = op.Concat(op.dim(X, 0), [samples], axis=0)
    uniform = _uniform(op, shape, X.dtype or ir.DataType.FLOAT, source)
    passed = op.LessOrEqual(below, op.Unsqueeze(uniform, [2]))
    index = op.ReduceSum(op.Cast(passed, to=int(ir.DataType.INT64)), [2], keepdims=0)
    # Rounded, the probabilities may add up to less than 1.
    return op.cast(op.Min(index, op.Sub(op.Squeeze(op.dim(X, 1), [0]), 1)), _dtype(node))


_DRAWING: dict[str, Callable[[Builder, ir.Node, Source], ir.Value]] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": _random_normal,
    "RandomNormalLike": _random_normal,
    "RandomUniform": _random_uniform,
    "RandomUniformLike": _random_uniform,
}


def _input(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _shape(op: Builder, node: ir.Node) -> ir.Value:
    if node.inputs:
        return op.shape_of(_input(node))
    return op.constant(np.array(node.attributes["shape"].as_ints(), np.int64))


def _dtype(node: ir.Node) -> ir.DataType:
    dtype = node.outputs[0].dtype
    assert dtype is not None
    return dtype


def _float(node: ir.Node, name: str, default: float) -> float:
    return float(node.attributes.get_float(name, default))

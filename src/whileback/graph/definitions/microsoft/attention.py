"""Attention of several heads: of a whole layer, and of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT
from whileback.graph.shapes import describe, rank

__all__ = ["heads", "joined", "lowest", "scaled"]

Values = Sequence[ir.Value | None]


@definition(MICROSOFT, "Attention")
def attention(
    op: Builder,
    node: ir.Node,
    input: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    mask_index: ir.Value | None = None,
    past: ir.Value | None = None,
    attention_bias: ir.Value | None = None,
    past_sequence_length: ir.Value | None = None,
) -> Values:
    """Y = softmax(Q·Kᵀ/√d + masks)·V by heads, where Q, K and V are input·weights + bias."""
    _refuse(node, past_sequence_length, "do_rotary", "past_present_share_buffer")
    projected = op.MatMul(input, weights)
    projected = projected if bias is None else op.Add(projected, bias)
    sizes = node.attributes.get_ints("qkv_hidden_sizes")
    split = {"axis": -1, "num_outputs": 3 if sizes is None else None}
    given = None if sizes is None else list(sizes)
    parts = op.emit("Split", [projected, given], split, outputs=3)
    Q, K, V = (heads(op, part, node.attributes["num_heads"].as_int()) for part in parts)
    present = length = None
    if past is not None:
        length = op.dim(past, 3)
        K, V = (
            op.Concat(op.Gather(past, index, axis=0), new, axis=2)
            for index, new in enumerate((K, V))
        )
    if len(node.outputs) > 1:
        present = op.Concat(op.Unsqueeze(K, [0]), op.Unsqueeze(V, [0]), axis=0)
    scores = _masked(op, node, _scores(op, node, Q, K), mask_index, attention_bias, length)
    return _attended(op, scores, V), present


@definition(MICROSOFT, "MultiHeadAttention")
def multi_head_attention(
    op: Builder,
    node: ir.Node,
    query: ir.Value,
    key: ir.Value | None = None,
    value: ir.Value | None = None,
    bias: ir.Value | None = None,
    key_padding_mask: ir.Value | None = None,
    attention_bias: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
    past_sequence_length: ir.Value | None = None,
    cache_indirection: ir.Value | None = None,
) -> Values:
    """Y = softmax(Q·Kᵀ/√d + masks)·V by heads, where a bias is added to Q, K and V."""
    _refuse(node, past_sequence_length or cache_indirection)
    Q, K, V = _queries_keys_values(op, node, query, key, value, bias)
    length = None
    if past_key is not None and past_value is not None:
        length = op.dim(past_key, 2)
        K, V = op.Concat(past_key, K, axis=2), op.Concat(past_value, V, axis=2)
    scores = _scores(op, node, Q, K)
    scores = _masked(op, node, scores, key_padding_mask, attention_bias, length)
    return _attended(op, scores, V), K, V, scores


def heads(op: Builder, X: ir.Value, count: int) -> ir.Value:
    """Return [batch, position, head·size] as [batch, head, position, size]."""
    return op.Transpose(op.Reshape(X, [0, 0, count, -1]), perm=[0, 2, 1, 3])


def joined(op: Builder, X: ir.Value) -> ir.Value:
    """Undo `heads`."""
    return op.Reshape(op.Transpose(X, perm=[0, 2, 1, 3]), [0, 0, -1])


def scaled(op: Builder, node: ir.Node, scores: ir.Value, Q: ir.Value) -> ir.Value:
    """Return scores times the scale of the node, by default 1/√d for queries of a size d."""
    scale = node.attributes.get_float("scale", 0.0)
    size = None if Q.shape is None else Q.shape[-1]
    if not scale and isinstance(size, int):
        scale = 1 / math.sqrt(size)
    if scale:
        return op.Mul(scores, scale)
    return op.Div(scores, op.Sqrt(op.cast(op.Squeeze(op.dim(Q, 3), [0]), scores)))


def _scores(op: Builder, node: ir.Node, Q: ir.Value, K: ir.Value) -> ir.Value:
    return scaled(op, node, op.MatMul(Q, op.Transpose(K, perm=[0, 1, 3, 2])), Q)


def _attended(op: Builder, scores: ir.Value, V: ir.Value) -> ir.Value:
    """Return softmax(scores)·V, the heads joined."""
    return joined(op, op.MatMul(op.Softmax(scores, axis=-1), V))


def _masked(
    op: Builder,
    node: ir.Node,
    scores: ir.Value,
    mask: ir.Value | None,
    bias: ir.Value | None,
    past: ir.Value | None,
) -> ir.Value:
    """Return the scores with what is added where a mask forbids to look, and a bias.

    A mask is 0 where it forbids, for each key or for each query and key; or it is the number of
    the keys of each batch that may be looked at, or their end and then their beginning. As many
    keys as there are in the `past` come before the first query.
    """
    if bias is not None:
        scores = op.Add(scores, bias)
    zero = op.constant(0, scores.dtype)
    if mask is not None:
        filler = node.attributes.get_float("mask_filter_value", -10000.0)
        allowed = _allowed(op, node, scores, mask)
        scores = op.Add(scores, op.Where(allowed, zero, op.constant(filler, scores.dtype)))
    if node.attributes.get_int("unidirectional", 0):
        scores = op.Where(_earlier(op, scores, past), scores, lowest(op, scores.dtype))
    return scores


def lowest(op: Builder, dtype: ir.DataType | None) -> ir.Value:
    """Return the lowest number of a type, which a score is that must not be looked at."""
    return op.constant(_LOWEST.get(dtype, _LOWEST[ir.DataType.FLOAT]), dtype)


_LOWEST: dict[ir.DataType | None, float] = {
    ir.DataType.BFLOAT16: -(2.0**127) * (2 - 2.0**-7),
    ir.DataType.FLOAT16: -65504.0,
    ir.DataType.FLOAT: -(2.0**127) * (2 - 2.0**-23),
}


def _earlier(op: Builder, scores: ir.Value, past: ir.Value | None) -> ir.Value:
    """Return which keys are no later than each query; the last query may look at all of them."""
    queries = op.dim(scores, 2)
    numbers = op.arange(queries)
    places = op.Unsqueeze(numbers if past is None else op.Add(numbers, past), [1])
    is_last = op.Unsqueeze(op.Equal(numbers, op.Sub(queries, 1)), [1])
    return op.Or(is_last, op.LessOrEqual(op.arange(op.dim(scores, 3)), places))


def _allowed(op: Builder, node: ir.Node, scores: ir.Value, mask: ir.Value) -> ir.Value:
    """Return where a mask allows to look, in a shape that is broadcast to the scores."""
    count = rank(mask)
    if count in (2, 3):
        return op.Unsqueeze(op.Cast(mask, to=int(ir.DataType.BOOL)), [1, 2] if count == 2 else [1])
    if count != 1:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::{node.op_type}) has a mask '{mask.name}' "
            f"({describe(mask)}), and not one whose rank is known to be 1, 2 or 3. Declare its "
            "shape, whose dimensions may be symbols; or give a mask as an attention bias."
        )
    batch, keys = op.dim(scores, 0), op.cast(op.arange(op.dim(scores, 3)), mask)
    # Where no beginnings are given, they are 0.
    limits = op.Concat(mask, op.Expand(op.constant(0, mask.dtype), batch), axis=0)
    end, begin = (
        op.Unsqueeze(op.Slice(limits, first, last, [0]), [1, 2, 3])
        for first, last in (([0], batch), (batch, op.Mul(batch, 2)))
    )
    return op.And(op.Less(keys, end), op.GreaterOrEqual(keys, begin))


def _queries_keys_values(
    op: Builder,
    node: ir.Node,
    query: ir.Value,
    key: ir.Value | None,
    value: ir.Value | None,
    bias: ir.Value | None,
) -> list[ir.Value]:
    """Return [batch, head, position, size] for each, with the biases added."""
    count = node.attributes["num_heads"].as_int()
    ranks = [None if each is None else rank(each) for each in (query, key, value)]
    if ranks == [3, 4, 4] and key is not None and value is not None:
        start = None if bias is None else op.Slice(bias, [0], op.dim(query, 2), [0])
        return [heads(op, query if start is None else op.Add(query, start), count), key, value]
    if ranks[0] == 5:
        parts = [op.Gather(query, index, axis=3) for index in range(3)]
    elif ranks[:2] == [3, 5] and key is not None:
        parts = [query, *(op.Gather(key, index, axis=3) for index in range(2))]
    elif ranks == [3, 3, 3] and key is not None and value is not None:
        parts = [query, key, value]
    else:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::MultiHeadAttention) has queries, keys and values "
            f"of the ranks {ranks}, with which it has no plain meaning. Declare their shapes; "
            "dimensions may be symbols."
        )
    flat = [part if rank(part) == 3 else op.Reshape(part, [0, 0, -1]) for part in parts]
    if bias is not None:
        flat = _biased(op, flat, bias)
    return [heads(op, part, count) for part in flat]


def _biased(op: Builder, parts: Sequence[ir.Value], bias: ir.Value) -> list[ir.Value]:
    """Add to each part its piece of a bias."""
    sizes = op.Concat(*(op.dim(part, 2) for part in parts), axis=0)
    pieces = op.emit("Split", [bias, sizes], {"axis": 0}, outputs=len(parts))
    return [op.Add(part, piece) for part, piece in zip(parts, pieces, strict=True)]


def _refuse(node: ir.Node, buffer: ir.Value | None, *attributes: str) -> None:
    """Refuse what shares its buffers with what ran before: it has no gradient of its own."""
    named = [name for name in attributes if node.attributes.get_int(name, 0)]
    if buffer is not None or named:
        what = f"the attribute {named[0]!r}" if named else "the length of a past in a buffer"
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::{node.op_type}) has {what}, which is not "
            "differentiated. Export the model without."
        )

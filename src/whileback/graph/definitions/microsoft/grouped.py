"""Attention in which several heads of queries share one head of keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.microsoft.attention import heads, joined, lowest, scaled
from whileback.graph.definitions.microsoft.rotary import rotated
from whileback.graph.definitions.table import definition
from whileback.graph.microsoft import MICROSOFT

Values = Sequence[ir.Value | None]
Maybe = ir.Value | None

_INT64 = ir.DataType.INT64


@definition(MICROSOFT, "GroupQueryAttention")
def group_query_attention(
    op: Builder,
    node: ir.Node,
    query: ir.Value,
    key: Maybe,
    value: Maybe,
    past_key: Maybe,
    past_value: Maybe,
    seqlens_k: ir.Value,
    total_sequence_length: ir.Value,
    cos_cache: Maybe = None,
    sin_cache: Maybe = None,
    position_ids: Maybe = None,
    attention_bias: Maybe = None,
    head_sink: Maybe = None,
    *others: Maybe,
) -> Values:
    """Y = softmax(Q·Kᵀ/√d + masks)·V, where K and V go on behind those of the past.

    Each batch has its own length of the past: what is new is at its places behind that.
    """
    _refuse(node, others)
    Q, K, V = _queries_keys_values(op, node, query, key, value)
    lengths = op.Add(op.cast(op.Reshape(seqlens_k, [-1, 1]), _INT64), 1)
    total = op.Reshape(op.cast(total_sequence_length, _INT64), [1])
    new = op.dim(query, 1)
    # A first run has no past, though a batch may have fewer keys than there are places.
    past = op.Where(op.Equal(new, total), 0, op.Sub(lengths, new))
    places = op.Add(past, op.arange(new))
    if node.attributes.get_int("do_rotary", 0) and cos_cache is not None and sin_cache is not None:
        angles = places if position_ids is None else position_ids
        cos, sin = op.Gather(cos_cache, angles), op.Gather(sin_cache, angles)
        interleaved = bool(node.attributes.get_int("rotary_interleaved", 0))
        Q, K = (rotated(op, X, cos, sin, interleaved) for X in (Q, K))
    present_key = _continued(op, past_key, K, past, total)
    present_value = _continued(op, past_value, V, past, total)
    K, V = (op.Slice(X, [0], total, [2]) for X in (present_key, present_value))
    scores = _scores(op, node, Q, K, attention_bias)
    scores = op.Where(_allowed(op, node, places, lengths, total), scores, lowest(op, scores.dtype))
    chances = _chances(op, node, scores, head_sink)
    return joined(op, _grouped(op, node, chances, V)), present_key, present_value


def _queries_keys_values(
    op: Builder, node: ir.Node, query: ir.Value, key: Maybe, value: Maybe
) -> list[ir.Value]:
    """Return [batch, head, position, size] for each, which may be parts of one tensor."""
    count, shared = (node.attributes[name].as_int() for name in ("num_heads", "kv_num_heads"))
    if key is not None and value is not None:
        return [heads(op, query, count), heads(op, key, shared), heads(op, value, shared)]
    whole = heads(op, query, count + 2 * shared)
    return list(op.emit("Split", [whole, [count, shared, shared]], {"axis": 1}, outputs=3))


def _continued(op: Builder, old: Maybe, new: ir.Value, past: ir.Value, total: ir.Value) -> ir.Value:
    """Return what is new at its places behind the past of each batch."""
    if old is None:
        return new
    room, whole = op.dim(old, 2), op.Concat(old, new, axis=2)
    places = op.arange(op.Max(room, total))
    behind = op.Add(op.Sub(places, past), room)
    last = op.Sub(op.dim(whole, 2), 1)
    sources = op.Where(op.Less(places, past), places, op.Min(behind, last))
    shape = op.Concat(op.Shape(new, start=0, end=2), op.Shape(places), op.dim(new, 3), axis=0)
    return op.GatherElements(whole, op.Expand(op.Unsqueeze(sources, [1, 3]), shape), axis=2)


def _grouped(op: Builder, node: ir.Node, X: ir.Value, shared: ir.Value) -> ir.Value:
    """Return the products of each head with the one that its group shares."""
    groups = node.attributes["kv_num_heads"].as_int()
    size = node.attributes["num_heads"].as_int() // groups
    apart = op.Concat([0, groups, size], op.Shape(X, start=2), axis=0)
    product = op.MatMul(op.Reshape(X, apart), op.Unsqueeze(shared, [2]))
    together = op.Concat([0, groups * size], op.Shape(product, start=3), axis=0)
    return op.Reshape(product, together)


def _scores(op: Builder, node: ir.Node, Q: ir.Value, K: ir.Value, bias: Maybe) -> ir.Value:
    product = _grouped(op, node, Q, op.Transpose(K, perm=[0, 1, 3, 2]))
    scores = scaled(op, node, product, Q)
    softcap = node.attributes.get_float("softcap", 0.0)
    if softcap:
        scores = op.Mul(op.Tanh(op.Div(scores, softcap)), softcap)
    return scores if bias is None else op.Add(scores, bias)


def _allowed(
    op: Builder, node: ir.Node, places: ir.Value, lengths: ir.Value, total: ir.Value
) -> ir.Value:
    """Return which keys each query may look at, [batch, 1, query, key]."""
    keys = op.arange(total)
    if not node.attributes.get_int("causal", 1):
        return op.Unsqueeze(op.Less(keys, lengths), [1, 2])
    last = op.Unsqueeze(places, [1, 3])
    allowed = op.LessOrEqual(keys, last)
    window = node.attributes.get_int("local_window_size", -1)
    if window >= 0:
        allowed = op.And(allowed, op.Greater(keys, op.Sub(last, window)))
    return allowed


def _chances(op: Builder, node: ir.Node, scores: ir.Value, sink: Maybe) -> ir.Value:
    """Return the softmax of the scores; a sink is one more score, of what has no value."""
    smooth = node.attributes.get_int("smooth_softmax", 0) > 0
    if sink is None and not smooth:
        return op.Softmax(scores, axis=-1)
    column = op.zeros_like(op.Slice(scores, [0], [1], [-1]))
    if sink is not None:
        column = op.Add(column, op.Unsqueeze(op.cast(sink, scores), [1, 2]))
    chances = op.Softmax(op.Concat(scores, column, axis=-1), axis=-1)
    return op.Slice(chances, [0], [-1], [-1])


def _refuse(node: ir.Node, others: Sequence[Maybe]) -> None:
    """Refuse caches that are rounded or move on, and what else has no plain meaning."""
    names = ("kv_cache_bit_width", "sliding_window_cache", "qk_output")
    named = [name for name in names if node.attributes.get_int(name, 0)]
    inputs = ("k_scale", "v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens")
    named += [name for name, given in zip(inputs, others, strict=False) if given is not None]
    if named:
        raise UnsupportedError(
            f"Node '{node.name}' (com.microsoft::GroupQueryAttention) has {named[0]!r}, which is "
            "not differentiated. Export the model without."
        )

"""Operators of language models: heads that share keys, caches, masks, states, and rotations."""

from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, flags, judge, numbers, whole

SIZE = st.integers(1, 2)


def written(operator, attributes, names, given):
    """Return a call that leaves out the inputs that are not given."""
    shown = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    read = ", ".join(name if name in given else "" for name in names).rstrip(", ")
    return f"{operator}<{shown}>({read})"


def some(draw, outputs):
    """Draw at least one of the outputs."""
    return draw(st.permutations(outputs))[: draw(st.integers(1, len(outputs)))]


@examples(6)
def test_attention(draw):
    batch, heads, shared, size, wide = (draw(SIZE) for _ in range(5))
    queries, past, causal = draw(SIZE), draw(st.integers(0, 2)), draw(st.integers(0, 1))
    # ONNX Runtime 1.32 lets a single query see all keys that follow what is past.
    keys = 1 if causal and past and queries == 1 else draw(SIZE)
    given = {
        "q": numbers(draw, (batch, heads * shared, queries, size)),
        "k": numbers(draw, (batch, heads, keys, size), 1),
        "v": numbers(draw, (batch, heads, keys, wide), 2),
    }
    if draw(st.booleans()):
        dims = draw(st.sampled_from(((1, 1), (batch, 1), (batch, heads * shared))))
        dims = (*dims, queries, keys + past)[draw(st.sampled_from((0, 2))) :]
        given["m"] = numbers(draw, dims, 3)
    if past:  # far from what is there, so that the terms of a gradient do not cancel
        given["a"] = -numbers(draw, (batch, heads, past, size), 4)
        given["b"] = -numbers(draw, (batch, heads, past, wide), 5)
    outputs = ("y", "c", "d") if past else ("y",)
    attributes = {"scale": 0.5, "is_causal": causal}
    if draw(st.booleans()):
        attributes["softcap"] = 2.0
    call = written("Attention", attributes, "qkvmab", given)
    of = some(draw, outputs)
    judge(draw, call, outputs=outputs, of=of, opset=23, declared=WAYS[:2], **given)


@examples(3)
def test_attention_to_what_a_mask_leaves(draw):
    batch, heads, size = (draw(SIZE) for _ in range(3))
    queries, keys = draw(SIZE), draw(st.integers(1, 3))
    mask = flags(draw, (queries, keys))
    mask[:, draw(st.integers(0, keys - 1))] = True  # ONNX leaves open what comes of nothing
    given = {"m": mask}
    for which, (name, rows) in enumerate((("q", queries), ("k", keys), ("v", keys))):
        given[name] = numbers(draw, (batch, rows, heads * size), which)
    attributes = {"q_num_heads": heads, "kv_num_heads": heads}
    call = written("Attention", attributes, "qkvm", given)
    judge(draw, call, opset=23, declared=WAYS[:2], **given)


@examples(4)
def test_rotary_embedding(draw):
    batch, heads, length, half, rest = (draw(SIZE) for _ in range(5))
    rest = 2 * (rest - 1)
    flat = draw(st.booleans())
    size = 2 * half + rest
    dims = (batch, length, heads * size) if flat else (batch, heads, length, size)
    attributes = {"interleaved": draw(st.integers(0, 1)), "num_heads": heads}
    if rest:
        attributes["rotary_embedding_dim"] = 2 * half
    table, given = (batch, length, half), {}
    if draw(st.booleans()):
        table, given = (3, half), {"p": whole(draw, (batch, length), 0, 2)}
    given |= {"x": numbers(draw, dims), "c": numbers(draw, table, 1), "s": numbers(draw, table, 2)}
    call = written("RotaryEmbedding", attributes, "xcsp", given)
    judge(draw, call, opset=23, declared=WAYS[:2], **given)


@examples(5)
def test_linear_attention(draw):
    rule = draw(st.sampled_from(("linear", "gated", "delta", "gated_delta")))
    batch, length, heads, shared, keys, values = (draw(SIZE) for _ in range(6))
    given = {
        "q": numbers(draw, (batch, length, heads * shared * keys)),
        "k": numbers(draw, (batch, length, heads * keys), 1),
        "v": numbers(draw, (batch, length, heads * values), 2),
    }
    if draw(st.booleans()):
        given["s"] = numbers(draw, (batch, heads, keys, values), 3)
    if "gated" in rule:
        gates = heads * draw(st.sampled_from((1, keys)))
        given["d"] = -numbers(draw, (batch, length, gates), 4, positive=True)
    if "delta" in rule:
        given["b"] = numbers(draw, (batch, length, draw(st.sampled_from((1, heads)))), 5)
    attributes = {"q_num_heads": heads * shared, "kv_num_heads": heads, "update_rule": f'"{rule}"'}
    call = written("LinearAttention", attributes, "qkvsdb", given)
    letters = {name: "B---" if name == "s" else "BT-" for name in given}
    of = some(draw, ("y", "z"))
    judge(
        draw, call, outputs=("y", "z"), of=of, opset=27, declared=WAYS[:2], letters=letters, **given
    )


@examples(5)
def test_causal_conv_with_state(draw):
    batch, channels, length, kernel = (
        draw(SIZE),
        draw(SIZE),
        *(draw(st.integers(1, 3)) for _ in "lk"),
    )
    given = {
        "x": numbers(draw, (batch, channels, length)),
        "w": numbers(draw, (channels, 1, kernel), 1),
    }
    if draw(st.booleans()):
        given["b"] = numbers(draw, (channels,), 2)
    if draw(st.booleans()):
        given["s"] = numbers(draw, (batch, channels, kernel - 1), 3)
    attributes = {"activation": f'"{draw(st.sampled_from(("none", "silu", "swish")))}"'}
    call = written("CausalConvWithState", attributes, "xwbs", given)
    of = some(draw, ("y", "z"))
    judge(draw, call, outputs=("y", "z"), of=of, opset=27, declared=WAYS[:2], **given)

"""Operators that make data standard over some axes, and those that look at axes beside."""

from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, judge, numbers, part_of, shape

EPSILON = "epsilon = 0.5"  # so that the terms of a gradient do not cancel


def images(draw, *, least_rank=3, channels=None, smallest=0):
    """Draw the shape of data N×C×…"""
    count = draw(st.integers(least_rank, 5)) - 2
    sizes = shape(draw, count, count, most=8, smallest=smallest)
    return (draw(st.integers(0, 2)), channels or draw(st.integers(1, 4)), *sizes)


def affine(draw, dims):
    """Draw scale and bias."""
    return {"s": numbers(draw, dims, 1), "b": numbers(draw, dims, 2)}


@examples(8)
def test_layer_normalization(draw):
    x = numbers(draw, shape(draw, 1, 5))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    inner = x.shape[axis:]
    given = {"x": x, "s": numbers(draw, part_of(draw, inner) if draw(st.booleans()) else inner, 1)}
    if draw(st.booleans()):
        given["b"] = numbers(draw, given["s"].shape, 2)
    outputs = ["y", "m", "r"][: draw(st.integers(1, 3))]
    of = draw(st.permutations(outputs))[: draw(st.integers(1, len(outputs)))]
    call = f"LayerNormalization<axis = {axis}, {EPSILON}>({', '.join(given)})"
    judge(draw, call, outputs=outputs, of=of, **given)


@examples(8)
def test_rms_normalization(draw):
    x = numbers(draw, shape(draw, 1, 5))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    s = numbers(draw, part_of(draw, x.shape[axis:]), 1)
    judge(draw, f"RMSNormalization<axis = {axis}, {EPSILON}>(x, s)", opset=23, x=x, s=s)


@examples(4)
def test_simplified_layer_normalization(draw):
    x = numbers(draw, shape(draw, 1, 4, smallest=1))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    outputs = ["y", "r"][: draw(st.integers(1, 2))]
    call = f"SimplifiedLayerNormalization<axis = {axis}, {EPSILON}>(x, s)"
    s = numbers(draw, x.shape[axis:], 1)
    judge(draw, call, outputs=outputs, declared=WAYS[:2], x=x, s=s)


@examples(4)
def test_group_normalization(draw):
    groups = draw(st.integers(1, 3))
    x = numbers(draw, images(draw, channels=groups * draw(st.integers(1, 2))))
    call = f"GroupNormalization<num_groups = {groups}, {EPSILON}>(x, s, b)"
    judge(draw, call, x=x, **affine(draw, x.shape[1:2]))


@examples(3)
def test_group_normalization_with_a_scale_for_each_group(draw):
    groups = draw(st.integers(1, 3))
    x = numbers(draw, images(draw, channels=groups * draw(st.integers(1, 2))))
    call = f"GroupNormalization<num_groups = {groups}, {EPSILON}>(x, s, b)"
    judge(draw, call, opset=18, x=x, **affine(draw, (groups,)))


@examples(3)
def test_instance_normalization(draw):
    x = numbers(draw, images(draw, smallest=1))  # else ONNX Runtime 1.32 crashes
    judge(draw, f"InstanceNormalization<{EPSILON}>(x, s, b)", x=x, **affine(draw, x.shape[1:2]))


@examples(12)
def test_batch_normalization(draw):
    dims = images(draw, least_rank=2)
    x, channels = numbers(draw, dims), dims[1:2]
    given = {"x": x, **affine(draw, channels)}
    given |= {"m": numbers(draw, channels, 3), "v": numbers(draw, channels, 4, positive=True)}
    training = draw(st.integers(0, min(1, x.size)))
    outputs = ["y", "n", "w"] if training else ["y"]
    of = draw(st.permutations(outputs))[: draw(st.integers(1, len(outputs)))]
    attributes = f"training_mode = {training}, momentum = 0.75, {EPSILON}"
    call = f"BatchNormalization<{attributes}>(x, s, b, m, v)"
    judge(draw, call, outputs=outputs, of=of, **given)


@examples(4)
def test_local_response_normalization(draw):
    x = numbers(draw, images(draw, smallest=1))
    size = draw(st.integers(1, 5))
    call = f"LRN<size = {size}, alpha = 0.5, beta = 0.75, bias = 1.5>(x)"
    judge(draw, call, x=x)


@examples(6)
def test_mean_variance_normalization(draw):
    x = numbers(draw, shape(draw, 2, 3, smallest=3))
    chosen = draw(st.permutations(range(x.ndim)))[: draw(st.integers(1, x.ndim))]
    judge(draw, f"MeanVarianceNormalization<axes = {chosen}>(x)", x=x)

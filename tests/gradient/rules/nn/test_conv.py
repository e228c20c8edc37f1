import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import KINDS, judge, values
from tests.judge import parse

from whileback.errors import UnsupportedError
from whileback.gradient import vjp

# Attributes, shape of the data, shape of the weight.
CONV = [
    ("", (2, 2, 7), (3, 2, 3)),
    ("strides = [2]", (2, 2, 8), (3, 2, 3)),
    ("strides = [3], pads = [1, 2]", (1, 1, 12), (2, 1, 5)),
    ("strides = [3]", (1, 1, 8), (2, 1, 2)),
    ("group = 2, strides = [2], dilations = [2], pads = [2, 1]", (2, 4, 9), (4, 2, 3)),
    ("group = 3, strides = [2, 3], pads = [1, 0, 2, 1]", (2, 3, 6, 5), (6, 1, 3, 2)),
    ("group = 2", (1, 2, 4, 3), (2, 1, 1, 1)),
    ("dilations = [3, 1], strides = [2, 2]", (1, 1, 8, 6), (1, 1, 2, 3)),
    ("strides = [1, 2, 1]", (2, 1, 3, 4, 3), (2, 1, 2, 2, 1)),
    ("group = 2, strides = [2, 1, 1], pads = [1, 0, 0, 0, 0, 1]", (1, 2, 4, 2, 2), (2, 1, 2, 2, 2)),
]
AUTOMATIC = [
    ("strides = [2, 3]", (1, 2, 6, 7), (2, 2, 3, 4)),
    ("", (1, 1, 5, 4), (2, 1, 3, 2)),
    ("strides = [3, 2]", (1, 1, 6, 7), (2, 1, 1, 1)),
]
CONV_TRANSPOSE = [
    ("", (2, 2, 4), (2, 3, 3)),
    ("strides = [3], output_padding = [2], pads = [1, 2]", (2, 2, 4), (2, 3, 3)),
    ("strides = [2], output_padding = [1], group = 2, dilations = [2]", (2, 4, 4), (4, 1, 3)),
    ("strides = [2, 2], group = 2, pads = [1, 1, 1, 1]", (1, 2, 3, 4), (2, 1, 3, 3)),
    ("strides = [2, 2, 1]", (1, 2, 2, 3, 2), (2, 1, 2, 1, 2)),
    ("strides = [3, 1]", (1, 1, 3, 2), (1, 2, 2, 1)),
]
AUTOMATIC_TRANSPOSE = [
    ("strides = [2, 3]", (1, 1, 3, 4), (1, 2, 3, 4)),
    ("strides = [2, 3], output_shape = [6, 11]", (1, 1, 3, 4), (1, 2, 3, 4)),
    ("strides = [3, 2], output_padding = [1, 0]", (1, 1, 2, 3), (1, 1, 2, 2)),
]
SAME = ('auto_pad = "SAME_UPPER"', 'auto_pad = "SAME_LOWER"')
OTHERS = ('auto_pad = "VALID"', 'auto_pad = "NOTSET"')


def listed(*attributes):
    return ", ".join(filter(None, attributes))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("attributes", "x", "w"), CONV)
def test_conv(attributes, x, w, kind):
    judge(f"Conv<{attributes}>", kind, x=values(*x), w=values(*w, seed=1), b=values(w[0], seed=2))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("auto_pad", SAME)
@pytest.mark.parametrize(("attributes", "x", "w"), AUTOMATIC)
def test_conv_with_automatic_padding(attributes, x, w, auto_pad, kind):
    judge(f"Conv<{listed(attributes, auto_pad)}>", kind, x=values(*x), w=values(*w, seed=1))


@pytest.mark.parametrize("auto_pad", OTHERS)
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_no_automatic_padding(operator, auto_pad):
    call = f"{operator}<strides = [2, 3], {auto_pad}>"
    judge(call, "symbols", x=values(1, 2, 4, 5), w=values(2, 2, 3, 4, seed=1))


@pytest.mark.parametrize("auto_pad", OTHERS)
def test_an_output_shape_without_automatic_padding(auto_pad):
    call = f"ConvTranspose<strides = [2, 3], output_shape = [6, 11], {auto_pad}>"
    judge(call, "symbols", x=values(1, 1, 3, 4), w=values(1, 2, 3, 4, seed=1))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("attributes", "x", "w"), CONV_TRANSPOSE)
def test_conv_transpose(attributes, x, w, kind):
    group = 2 if "group" in attributes else 1
    b = values(w[1] * group, seed=2)
    judge(f"ConvTranspose<{attributes}>", kind, x=values(*x), w=values(*w, seed=1), b=b)


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("auto_pad", SAME)
@pytest.mark.parametrize(("attributes", "x", "w"), AUTOMATIC_TRANSPOSE)
def test_conv_transpose_with_automatic_padding(attributes, x, w, auto_pad, kind):
    call = f"ConvTranspose<{listed(attributes, auto_pad)}>"
    judge(call, kind, x=values(*x), w=values(*w, seed=1))


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape = [3]",
        "strides = [2]",
        f"strides = [2], {SAME[0]}",
        f"strides = [2], {SAME[1]}",
    ],
)
def test_shapes_that_are_not_known_at_all(operator, attributes):
    judge(f"{operator}<{attributes}>", "unknown", x=values(2, 2, 6), w=values(2, 2, 3, seed=1))


def test_an_output_shape_for_data_of_unknown_shape():
    attributes = "strides = [2], output_shape = [10], kernel_shape = [3]"
    judge(
        f"ConvTranspose<{attributes}, {SAME[1]}>",
        "unknown",
        x=values(2, 2, 5),
        w=values(2, 2, 3, seed=1),
    )


def test_half_precision():
    x, w = values(1, 2, 8, dtype="float16"), values(2, 2, 3, dtype="float16", seed=1)
    judge("Conv<strides = [2]>", x=x, w=w)


@pytest.mark.parametrize("operator", ["Conv<group = 2>", "ConvTranspose<group = 2>", "Conv"])
def test_an_empty_batch(operator):
    inner = 2 if "group" in operator else 4
    model = f"(float[N,4,8] x, float[4,{inner},3] w) => (float[N,M,H] y) {{ y = {operator}(x, w) }}"
    zero = np.zeros((0, 4, 8), np.float32)
    got = gradients(model, {"x": zero, "w": np.ones((4, inner, 3), np.float32)})
    assert got["x"].shape == (0, 4, 8)
    np.testing.assert_array_equal(got["w"], np.zeros((4, inner, 3)))


def test_only_what_is_asked_for_is_computed():
    model = "(float[1,2,9] x, float[2,2,3] w) => (float[1,2,7] y) { y = Conv(x, w) }"
    nodes = [node.op_type for node in vjp(parse(model), of="y", wrt="x").graph]
    assert nodes == ["Conv", "ConvTranspose"]


def test_the_gradient_of_data_of_unknown_size_is_cropped_only_for_strides():
    model = "(float[1,2,H] x, float[2,2,3] w) => (float[1,2,O] y) { y = Conv<STRIDES>(x, w) }"
    for stride, expected in ((1, False), (2, True)):
        graph = vjp(parse(model.replace("STRIDES", f"strides = [{stride}]")), of="y", wrt="x").graph
        assert any(n.op_type == "Slice" for n in graph) == expected


def test_a_window_over_nobody_knows_how_many_axes_is_refused():
    model = """(float[A,B,C] d, int64[R] s, float[D,E,F] v) => (float[N] y) {
      x = Reshape(d, s)
      w = Reshape(v, s)
      c = Conv(x, w)
      n = Constant<value_ints = [-1]>()
      y = Reshape(c, n)
    }"""
    with pytest.raises(UnsupportedError) as error:
        vjp(parse(model), of="y", wrt="d")
    assert str(error.value) == (
        "Node 'Conv' (Conv) has no gradient: neither its attributes nor the shapes of its inputs "
        "tell over how many axes its window slides. Give it the attribute 'kernel_shape', or "
        "declare the shape of an input."
    )

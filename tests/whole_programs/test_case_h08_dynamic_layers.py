"""Conformance case H8: layers inside branches and loops, and on sizes only known at run time."""

import numpy as np
import pytest
from tests.judge import assert_gradient

RNG_SEED = 8


def normal(*shape):
    return np.random.default_rng(RNG_SEED).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("dims", ["3,2,2", "T,N,2"])
def test_lstm_inside_a_branch(c, dims):
    steps, batch, _ = dims.split(",")
    model = f"""(bool c, float[{dims}] x, float[1,12,2] W, float[1,12,3] R, float[1,24] B)
        => (float[{steps},1,{batch},3] y, float[1,{batch},3] h) {{
      y, h = If(c) <
        then_branch = t () => (float[{steps},1,{batch},3] a, float[1,{batch},3] ah) {{
          a, ah, ac = LSTM<hidden_size = 3>(x, W, R, B)
        }},
        else_branch = e () => (float[{steps},1,{batch},3] b, float[1,{batch},3] bh) {{
          twice = Mul(x, x)
          b, bh = LSTM<hidden_size = 3>(twice, W, R)
        }}>
    }}"""
    inputs = {"c": c, "x": normal(3, 2, 2)}
    wrt = ["x", "W", "R", "B"]
    assert_gradient(model, ["y", "h"], wrt, inputs, elements=12, directions=2)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_recurrent_layer_inside_a_loop(op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    model = f"""(int64 n, float[2,1,2] x, float[1,{2 * gates},2] W, float[1,{2 * gates},2] R)
        => (float[2,1,2] y) {{
      axis = Constant<value = int64[1] {{1}}>()
      y = Loop(n, , x) <body = body (int64 i, bool g, float[2,1,2] v)
          => (bool go, float[2,1,2] u) {{
        go = Identity(g)
        r, last = {op}<hidden_size = 2>(v, W, R)
        u = Squeeze(r, axis)
      }}>
    }}"""
    for n in (0, 2):
        assert_gradient(model, ["y"], ["x", "W", "R"], {"n": n}, elements=12, directions=2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_on_dynamic_sizes(mode):
    model = f"""(float[H,W] x, int64[4] pads) => (float[P,Q] y) {{
      y = Pad<mode = "{mode}">(x, pads)
    }}"""
    inputs = {"x": normal(3, 4), "pads": [1, 2, 2, 3]}
    assert_gradient(model, ["y"], ["x"], inputs)


@pytest.mark.parametrize("steps", [1, 2, -1, -2])
@pytest.mark.parametrize("constant", [True, False])
def test_slice_of_a_dynamic_axis(steps, constant):
    low, high = (1, 5) if steps > 0 else (-2, 0)
    given = "" if constant else ", int64[1] low, int64[1] high"
    known = (
        f"""low = Constant<value = int64[1] {{{low}}}>()
      high = Constant<value = int64[1] {{{high}}}>()"""
        if constant
        else ""
    )
    model = f"""(float[N,2] x{given}) => (float[M,2] y) {{
      {known}
      axes = Constant<value = int64[1] {{0}}>()
      steps = Constant<value = int64[1] {{{steps}}}>()
      s = Slice(x, low, high, axes, steps)
      y = Mul(s, s)
    }}"""
    inputs = {"x": normal(6, 2)} | ({} if constant else {"low": [low], "high": [high]})
    assert_gradient(model, ["y"], ["x"], inputs, second_order=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_on_a_dynamic_axis(axis):
    model = f"""(float[A,B] x, float[C,D] z) => (float[E,F] y) {{
      c = Concat<axis = {axis}>(x, z, x)
      y = Mul(c, c)
    }}"""
    z = normal(3, 2) if axis == 0 else normal(2, 3)
    inputs = {"x": normal(2, 2), "z": z}
    assert_gradient(model, ["y"], ["x", "z"], inputs, second_order=True)


CONV = """(float[%s] x, float[%s] w, float[%s] b) => (float[N,M,P,Q] y) { y = %s<%s>(x, w, b) }"""


@pytest.mark.parametrize("x", ["2,4,5,6", "N,4,5,6", "N,4,H,W"])
@pytest.mark.parametrize("attributes", [
    "pads = [1, 0, 2, 1], strides = [2, 1]",
    'auto_pad = "SAME_UPPER", strides = [2, 2]',
    'auto_pad = "SAME_LOWER"',
    'auto_pad = "VALID", dilations = [2, 1]',
])  # fmt: skip
def test_conv(x, attributes):
    model = CONV % (x, "3,4,3,2", "3", "Conv", attributes)
    inputs = {"x": normal(2, 4, 5, 6)}
    assert_gradient(model, ["y"], ["x", "w", "b"], inputs, directions=2)


@pytest.mark.parametrize("x", ["2,4,4,5", "N,4,H,W"])
@pytest.mark.parametrize(
    ("weight", "attributes"), [("4,1,3,2", "group = 4"), ("8,1,2,2", "group = 4, strides = [2, 1]")]
)
def test_depthwise_conv(x, weight, attributes):
    model = CONV % (x, weight, weight[0], "Conv", attributes)
    inputs = {"x": normal(2, 4, 4, 5)}
    assert_gradient(model, ["y"], ["x", "w", "b"], inputs, directions=2)


@pytest.mark.parametrize("x", ["2,4,3,3", "N,4,H,W"])
@pytest.mark.parametrize("attributes", [
    "strides = [2, 1], pads = [0, 1, 1, 0]",
    "group = 2, strides = [2, 2], output_padding = [1, 0]",
    "output_shape = [7, 5], strides = [2, 2]",
    'auto_pad = "SAME_UPPER", strides = [2, 2]',
])  # fmt: skip
def test_conv_transpose(x, attributes):
    bias = "6" if "group" in attributes else "3"
    model = CONV % (x, "4,3,3,2", bias, "ConvTranspose", attributes)
    inputs = {"x": normal(2, 4, 3, 3)}
    assert_gradient(model, ["y"], ["x", "w", "b"], inputs, directions=2)


@pytest.mark.parametrize("shape", ["2,1,6,7", "N,1,H,W"])
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool_with_ceil_mode(shape, include):
    attributes = f"""kernel_shape = [2, 2], strides = [2, 3], pads = [1, 0, 0, 1], ceil_mode = 1,
      count_include_pad = {include}"""
    model = f"(float[{shape}] x) => (float[N,C,P,Q] y) {{ y = AveragePool<{attributes}>(x) }}"
    assert_gradient(model, ["y"], ["x"], {"x": normal(2, 1, 6, 7)}, second_order=include == 1)


@pytest.mark.parametrize("n", [0, 2])
def test_conv_inside_a_loop(n):
    model = """(int64 n, float[N,2,L] x, float[2,2,3] w, float[2] b) => (float[N,2,L] y) {
      y = Loop(n, , x) <body = body (int64 i, bool c, float[] v) => (bool go, float[] u) {
        go = Identity(c)
        a = Conv<pads = [1, 1]>(v, w, b)
        u = Tanh(a)
      }>
    }"""
    inputs = {"n": n, "x": normal(2, 2, 4)}
    assert_gradient(model, ["y"], ["x", "w", "b"], inputs, elements=12, directions=2)

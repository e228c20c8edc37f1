"""Expansions in float64 against ONNX Runtime's float32 kernels, on random cases."""

import numpy as np
import onnx_ir as ir
import pytest

from whileback.checking.expand import EXPANSIONS
from whileback.checking.twin import float64_twin
from whileback.engines import compile

HEADER = '<ir_version: 10, opset_import: ["" : 21]> g '


def operators(graph):
    return {node.op_type for node in graph}


def agree(text, feeds, rtol=2e-5, engine="onnxruntime"):
    """Assert that the twin runs on ONNX Runtime and agrees with the model in float32."""
    model = ir.from_onnx_text(HEADER + text)
    expanded = operators(model.graph) & set(EXPANSIONS)
    want = compile(model, engine, **({"threads": 1} if engine == "onnxruntime" else {}))(feeds)
    twin = float64_twin(model)
    assert expanded
    wide = {
        name: value.astype(np.float64) if value.dtype == np.float32 else value
        for name, value in feeds.items()
    }
    got = compile(twin, optimization="disabled", threads=1)(wide)
    for name, value in want.items():
        assert got[name].shape == value.shape
        scale = np.max(np.abs(value[np.isfinite(value)]), initial=0.0)
        np.testing.assert_allclose(got[name], value, rtol=rtol, atol=rtol * scale)
    return got


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_remainders_with_the_sign_of_the_divisor():
    text = "(float[6] x, float[6] y) => (float[6] z) { z = Mod(x, y) }"
    x = np.array([5.5, -5.5, 5.5, -5.5, 6, -6], np.float32)
    y = np.array([3, 3, -3, -3, -3, 3], np.float32)
    got = agree(text, {"x": x, "y": y}, engine="reference")
    assert got["z"].tolist() == [2.5, 0.5, -0.5, -2.5, 0, 0]


@pytest.mark.parametrize(
    ("call", "low", "high"),
    [
        ("Acos(x)", -1, 1),
        ("Acosh(x)", 1, 5),
        ("Asin(x)", -1, 1),
        ("Asinh(x)", -5, 5),
        ("Atan(x)", -50, 50),
        ("Atanh(x)", -0.99, 0.99),
        ("Celu<alpha = 0.7>(x)", -3, 3),
        ("Cosh(x)", -3, 3),
        ("Elu<alpha = 0.7>(x)", -3, 3),
        ("Elu(x)", -3, 3),
        ("Erf(x)", -7, 7),
        ("Gelu(x)", -4, 4),
        ('Gelu<approximate = "tanh">(x)', -4, 4),
        ("HardSigmoid<alpha = 0.3, beta = 0.4>(x)", -4, 4),
        ("HardSigmoid(x)", -4, 4),
        ("HardSwish(x)", -5, 5),
        ("Hardmax(x)", -3, 3),
        ("Hardmax<axis = 0>(x)", -3, 3),
        ("LeakyRelu(x)", -3, 3),
        ("LeakyRelu<alpha = 0.7>(x)", -3, 3),
        ("Mean(x)", -3, 3),
        ("Mean(x, x, b)", -3, 3),
        ("Mish(x)", -3, 3),
        ("PRelu(x, b)", -3, 3),
        ("Selu(x)", -3, 3),
        ("Selu<alpha = 1.1, gamma = 0.9>(x)", -3, 3),
        ("Shrink<lambd = 0.7, bias = 0.2>(x)", -3, 3),
        ("Sinh(x)", -3, 3),
        ("Softplus(x)", -90, 90),
        ("Softsign(x)", -3, 3),
        ("Tan(x)", -1.5, 1.5),
        ("ThresholdedRelu<alpha = 0.7>(x)", -3, 3),
        ("MeanVarianceNormalization<axes = [1]>(x)", -3, 3),
    ],
)
def test_elementwise(call, low, high):
    x = np.linspace(low, high, 60, dtype=np.float32).reshape(12, 5)
    x = np.random.default_rng(0).permuted(x)
    text = f"(float[M,5] x, float[5] b) => (float[M,5] y) {{ y = {call} }}"
    agree(text, {"x": x, "b": normal(5)})


def test_acute_values_have_all_digits():
    import math

    exact = {
        "Erf": math.erf,
        "Asin": math.asin,
        "Acos": math.acos,
        "Atan": math.atan,
        "Tan": math.tan,
        "Sinh": math.sinh,
        "Asinh": math.asinh,
        "Atanh": math.atanh,
        "Softplus": lambda x: math.log1p(math.exp(x)),
    }
    x = np.concatenate([np.linspace(-0.999, 0.999, 41), [-1e-3, 0.0, 1e-6]])
    for name, function in exact.items():
        model = ir.from_onnx_text(f"{HEADER} (float[N] x) => (float[N] y) {{ y = {name}(x) }}")
        got = compile(float64_twin(model))(x=x)["y"]
        np.testing.assert_allclose(got, [function(v) for v in x], rtol=1e-13, atol=2e-15)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis):
    for known in ("j = Identity(i)", "s = Shape(i) t = Identity(s) j = Reshape(i, t)"):
        text = f"""(int64[M,N] i, int64 depth, float[2] v) => (float[A,B,C] y) {{
          {known} y = OneHot<axis = {axis}>(j, depth, v)
        }}"""
        places = np.array([[0, 1, -1], [3, 9, -9]])
        agree(text, {"i": places, "depth": np.array(4), "v": normal(2)})


def test_non_zero():
    x = np.float32([[0, 1.5], [0.1, 0]])
    got = agree("(float[2,2] x) => (int64[2,N] y) { y = NonZero(x) }", {"x": x})
    assert got["y"].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("attributes", "scale", "zero"),
    [
        ("", (), ()),
        ("<axis = 1>", (4,), (4,)),
        ("<axis = -2>", (2,), (2,)),
        ("<axis = 1, block_size = 2>", (2, 2), (2, 2)),
    ],
)
def test_dequantize(attributes, scale, zero):
    dims = f"[{','.join(map(str, scale))}]" if scale else ""
    text = f"""(uint8[2,4] x, float{dims} s, uint8{dims} z) => (float[2,4] y) {{
      y = DequantizeLinear{attributes}(x, s, z)
    }}"""
    rng = np.random.default_rng(0)
    x, z = (rng.integers(0, 9, size=shape).astype(np.uint8) for shape in ((2, 4), zero))
    agree(text, {"x": x, "s": np.abs(normal(*scale)) + np.float32(0.1), "z": np.asarray(z)})


@pytest.mark.parametrize("outputs", ["y", "y, m, i"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization(axis, outputs):
    shape = "4" if axis == -1 else "3,4"
    more = ", float[A,B,C] m, float[A,B,C] i" if "m" in outputs else ""
    text = f"""(float[N,3,4] x, float[{shape}] s, float[{shape}] b) => (float[N,3,4] y{more}) {{
      {outputs} = LayerNormalization<axis = {axis}, epsilon = 0.01>(x, s, b)
    }}"""
    shape = (4,) if axis == -1 else (3, 4)
    agree(text, {"x": normal(2, 3, 4), "s": normal(*shape, seed=1), "b": normal(*shape, seed=2)})


def test_instance_normalization():
    text = """(float[N,3,H,W] x, float[3] s, float[3] b) => (float[N,3,H,W] y) {
      y = InstanceNormalization<epsilon = 0.01>(x, s, b)
    }"""
    agree(text, {"x": normal(2, 3, 4, 5), "s": normal(3, seed=1), "b": normal(3, seed=2)})


@pytest.mark.parametrize("size", [3, 2, 5])
def test_local_response_normalization(size):
    text = f"""(float[N,4,H,W] x) => (float[N,4,H,W] y) {{
      y = LRN<size = {size}, alpha = 0.3, beta = 0.6, bias = 2.0>(x)
    }}"""
    x = normal(2, 4, 3, 2)
    if size % 2:  # ONNX Runtime has no other sizes
        agree(text, {"x": x})
    before, after = (size - 1) // 2, size // 2
    near = [(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(4)]
    want = x / (2 + 0.3 / size * np.stack(near, 1)) ** 0.6
    got = compile(float64_twin(ir.from_onnx_text(HEADER + text)))(x=x.astype(np.float64))
    np.testing.assert_allclose(got["y"], want, rtol=1e-5)


CONVOLUTIONS = [
    ("", (2, 3, 7), (4, 3, 3)),
    ("pads = [2, 1], strides = [2], dilations = [2]", (2, 3, 9), (4, 3, 3)),
    ("", (1, 2, 6, 5), (3, 2, 2, 3)),
    ("group = 2, strides = [2, 1], pads = [1, 0, 2, 1]", (2, 4, 6, 5), (6, 2, 3, 2)),
    ("group = 4, dilations = [1, 2]", (2, 4, 6, 7), (4, 1, 3, 3)),
    ('auto_pad = "SAME_UPPER", strides = [2, 3]', (1, 2, 7, 8), (3, 2, 2, 3)),
    ('auto_pad = "SAME_LOWER", strides = [3, 2]', (1, 2, 7, 8), (3, 2, 4, 2)),
    ('auto_pad = "VALID", strides = [2, 2]', (1, 2, 7, 8), (3, 2, 2, 3)),
    ("strides = [1, 2, 1], pads = [0, 1, 2, 1, 0, 1]", (1, 2, 4, 5, 3), (2, 2, 2, 3, 3)),
]


def dims(shape):
    return ",".join(map(str, shape))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("attributes", "x", "w"), CONVOLUTIONS)
def test_conv(attributes, x, w, known, bias):
    declared = dims(x) if known else ",".join("abcde"[: len(x)])
    kernel = dims(w) if known else ",".join("ABCDE"[: len(w)])
    result = ",".join("pqrst"[: len(x)])
    text = f"""(float[{declared}] x, float[{kernel}] w, float[{w[0]}] b) => (float[{result}] y) {{
      y = Conv<{attributes}>(x, w{", b" if bias else ""})
    }}""".replace("<>", "")
    agree(text, {"x": normal(*x), "w": normal(*w, seed=1), "b": normal(w[0], seed=2)})


def test_conv_of_a_value_of_unknown_rank():
    text = "(float[] x, float[3,2,2,3] w) => (float[] y) { y = Conv(x, w) }"
    agree(text, {"x": normal(1, 2, 6, 5), "w": normal(3, 2, 2, 3)})


def test_what_cannot_be_expanded_stays():
    text = "(float[] x, float[2] s, float[2] b) => (float[] y) { y = LayerNormalization(x, s, b) }"
    twin = float64_twin(ir.from_onnx_text(HEADER + text))
    assert "LayerNormalization" in operators(twin.graph)


TRANSPOSED = [
    ("", (2, 3, 5), (3, 4, 3)),
    ("strides = [3], pads = [1, 2], output_padding = [2]", (2, 3, 5), (3, 4, 4)),
    ("strides = [2, 1], dilations = [1, 2]", (1, 2, 3, 4), (2, 3, 2, 3)),
    ("group = 2, strides = [2, 3], pads = [1, 0, 0, 1]", (2, 4, 3, 4), (4, 3, 3, 2)),
    ('auto_pad = "SAME_UPPER", strides = [2, 2]', (1, 2, 3, 4), (2, 3, 3, 3)),
    ('auto_pad = "SAME_LOWER", strides = [2, 2]', (1, 2, 3, 4), (2, 3, 3, 3)),
    ('auto_pad = "SAME_UPPER", strides = [3, 3]', (1, 2, 3, 4), (2, 3, 2, 2)),
    ('auto_pad = "VALID", strides = [2, 2]', (1, 2, 3, 4), (2, 3, 3, 3)),
    ("output_shape = [10, 8], strides = [3, 2]", (1, 2, 3, 3), (2, 3, 3, 3)),
    ("output_shape = [6, 5], strides = [3, 2]", (1, 2, 3, 3), (2, 3, 3, 3)),
    ("strides = [1, 2, 1], pads = [0, 1, 0, 1, 0, 1]", (1, 2, 2, 3, 3), (2, 2, 2, 3, 2)),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("attributes", "x", "w"), TRANSPOSED)
def test_conv_transpose(attributes, x, w, known):
    declared = dims(x) if known else ",".join("abcde"[: len(x)])
    kernel = dims(w) if known else ",".join("ABCDE"[: len(w)])
    channels = w[1] * (2 if "group" in attributes else 1)
    result = ",".join("pqrst"[: len(x)])
    text = f"""(float[{declared}] x, float[{kernel}] w, float[{channels}] b)
        => (float[{result}] y) {{
      y = ConvTranspose<{attributes}>(x, w, b)
    }}""".replace("<>", "")
    agree(text, {"x": normal(*x), "w": normal(*w, seed=1), "b": normal(channels, seed=2)})


POOLS = [
    ("kernel_shape = [3]", (2, 3, 7)),
    ("kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]", (2, 3, 7, 6)),
    ("kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1", (1, 1, 4, 4)),
    ("kernel_shape = [3, 2], strides = [3, 3], ceil_mode = 1, pads = [1, 1, 1, 1]", (1, 2, 8, 7)),
    ("kernel_shape = [2, 2], strides = [3, 3], ceil_mode = 1, pads = [1, 1, 1, 1]", (1, 2, 5, 8)),
    ("kernel_shape = [2, 3], dilations = [2, 2], strides = [2, 1]", (1, 2, 7, 8)),
    ('kernel_shape = [2, 3], auto_pad = "SAME_UPPER", strides = [2, 2]', (1, 2, 7, 8)),
    ('kernel_shape = [2, 3], auto_pad = "SAME_LOWER", strides = [3, 2]', (1, 2, 7, 8)),
    ('kernel_shape = [2, 3], auto_pad = "VALID", strides = [3, 2]', (1, 2, 7, 8)),
    ("kernel_shape = [2, 3, 2], strides = [2, 1, 1], pads = [0, 1, 1, 1, 1, 0]", (1, 2, 4, 5, 3)),
]
POOL_OPERATORS = [
    "AveragePool<ATTRIBUTES>",
    "AveragePool<ATTRIBUTES, count_include_pad = 1>",
    "LpPool<ATTRIBUTES>",
    "LpPool<ATTRIBUTES, p = 3>",
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("operator", POOL_OPERATORS)
@pytest.mark.parametrize(("attributes", "x"), POOLS)
def test_pools(operator, attributes, x, known):
    declared = dims(x) if known else ",".join("abcde"[: len(x)])
    result = ",".join("pqrst"[: len(x)])
    call = operator.replace("ATTRIBUTES", attributes)
    agree(f"(float[{declared}] x) => (float[{result}] y) {{ y = {call}(x) }}", {"x": normal(*x)})


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize(
    "operator", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "GlobalLpPool<p = 3>"]
)
def test_global_pools(operator, shape):
    declared = ",".join("abcde"[: len(shape)])
    result = ",".join("pqrst"[: len(shape)])
    text = f"(float[{declared}] x) => (float[{result}] y) {{ y = {operator}(x) }}"
    agree(text, {"x": normal(*shape)})


def test_max_unpool():
    text = """(float[2,3,6,7] x) => (float[A,B,C,D] y) {
      p, i = MaxPool<kernel_shape = [2, 3], strides = [2, 2]>(x)
      y = MaxUnpool<kernel_shape = [2, 3], strides = [2, 2]>(p, i)
    }"""
    agree(text, {"x": normal(2, 3, 6, 7)})


def test_max_unpool_to_a_given_shape():
    text = """(float[1,1,4,4] x, int64[4] shape) => (float[A,B,C,D] y) {
      p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
      y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(p, i, shape)
    }"""
    agree(text, {"x": normal(1, 1, 4, 4), "shape": np.array([1, 1, 5, 5])})


@pytest.mark.parametrize(
    ("attributes", "image", "block", "count"),
    [
        ("", (5, 5), (1, 5), 5),
        ("strides = [2, 1], pads = [1, 0, 1, 1]", (5, 4), (3, 2), 12),
        ("dilations = [2, 2]", (6, 5), (2, 2), 12),
        ("strides = [2, 1, 1]", (5, 3, 3), (1, 2, 2), 12),
        ("strides = [2]", (8,), (3,), 3),
    ],
)
def test_col2im(attributes, image, block, count):
    n = len(image)
    result = ",".join("pqrst"[: n + 2])
    text = f"""(float[N,C,L] x, int64[{n}] i, int64[{n}] b) => (float[{result}] y) {{
      y = Col2Im<{attributes}>(x, i, b)
    }}""".replace("<>", "")
    x = normal(2, 3 * int(np.prod(block)), count)
    agree(text, {"x": x, "i": np.array(image), "b": np.array(block)})

"""Gradients in types beside FLOAT; `python -m tests.gradient.dtypes` judges all models."""

import re

import numpy as np
import onnx_ir as ir
import pytest
from tests.gradient.dtypes import DTYPES, UNIT, judge, models
from tests.judge import assert_gradient, parse

import whileback
from whileback.checking.truth import compile_exactly, widened
from whileback.engines import compile

# ONNX Runtime 1.32 has kernels for FLOAT16, or computes in FLOAT; NumPy rounds after every node.
RUNS = [("float16", "onnxruntime"), ("float16", "reference"), ("bfloat16", "reference")]
ROWS = "(T[4096,3] x, T[3] w) => (T[4096,3] y)"
ZEROS = "s = Constant<value_ints = [4096]>() k = ConstantOfShape<value = int64[1] {1}>(s)"
LABELS = "s = Constant<value_ints = [70000]>() k = ConstantOfShape<value = int64[1] {1}>(s)"

# Gradients that are sums of 4096 ones, or of as many as FLOAT16 cannot count.
SUMS = {
    "Add": f"{ROWS} {{ y = Add(x, w) }}",
    "Sub": f"{ROWS} {{ y = Sub(x, w) }}",
    "Mul": f"{ROWS} {{ y = Mul(x, w) }}",
    "Div": f"{ROWS} {{ y = Div(x, w) }}",
    "Sum": f"{ROWS} {{ y = Sum(x, w) }}",
    "Where": f"{ROWS} {{ c = Less(x, x) y = Where(c, x, w) }}",
    "Max": f"{ROWS} {{ h = Neg(x) y = Max(h, w) }}",
    "PRelu": f"{ROWS} {{ n = Neg(x) y = PRelu(n, w) }}",
    "Add of scalars": "(T[4096,3] x, T[1] w) => (T[4096,3] y) { y = Add(x, w) }",
    "Add, sizes unknown": "(T[4096,3] x, T[m,k] w) => (T[4096,3] y) { y = Add(x, w) }",
    "Clip": "(T[4096] x, T w) => (T[4096] y) { t = Add(w, w) y = Clip(x, t) }",
    "Expand": """(T[1,3] w)
      => (T[4096,3] y) { s = Constant<value_ints = [4096, 3]>() y = Expand(w, s) }""",
    "Tile": """(T[1,3] w)
      => (T[4096,3] y) { s = Constant<value_ints = [4096, 1]>() y = Tile(w, s) }""",
    "Pad": """(T[3] x, T w)
      => (T[4099] y) { s = Constant<value_ints = [0, 4096]>() y = Pad(x, s, w) }""",
    "Gather": f"(T[2,3] w) => (T[4096,3] y) {{ {ZEROS} y = Gather(w, k) }}",
    "GatherElements": f"(T[3] w) => (T[4096] y) {{ {ZEROS} y = GatherElements(w, k) }}",
    "CumSum": "(T[4096] w) => (T[4096] y) { a = Constant<value_int = 0>() y = CumSum(w, a) }",
    "Gemm": "(T[4096,2] x, T[2,3] w, T[3] b) => (T[4096,3] y) { y = Gemm(x, w, b) }",
    "Conv": "(T[1,1,4096] x, T[1,1,1] w, T[1] b) => (T[1,1,4096] y) { y = Conv(x, w, b) }",
    "LayerNormalization": """(T[4096,2] x, T[2] w, T[2] b)
      => (T[4096,2] y) { y = LayerNormalization(x, w, b) }""",
    "BatchNormalization": """(T[4096,2] x, T[2] w, T[2] b, T[2] m, T[2] v)
      => (T[4096,2] y) { y = BatchNormalization(x, w, b, m, v) }""",
    "GlobalAveragePool": "(T[1,1,300,300] x) => (T[1,1,1,1] y) { y = GlobalAveragePool(x) }",
    "ReduceMean": "(T[300,300] x) => (T[1,1] y) { y = ReduceMean(x) }",
    "NegativeLogLikelihoodLoss": f"""(T[70000,2] x)
      => (T y) {{ {LABELS} y = NegativeLogLikelihoodLoss(x, k) }}""",
    "SoftmaxCrossEntropyLoss": f"""(T[70000,2] x)
      => (T y) {{ {LABELS} y = SoftmaxCrossEntropyLoss(x, k) }}""",
}
LOOP = """(T[3] w) => (T[TRIPS,3] y) {
  z = Sub(w, w) n = Constant<value_int = TRIPS>() t = Constant<value = bool {1}>()
  last, y = Loop(n, t, z) <body = body (int64 i, bool c, T[3] v) => (bool d, T[3] u, T[3] o) {
    d = Identity(c) u = Identity(v) o = Mul(w, w)
  }>
}"""
SCAN = """(T[TRIPS,3] x, T[3] w) => (T[TRIPS,3] y) {
  y = Scan<num_scan_inputs = 1, body = body (T[3] r) => (T[3] o) { q = Mul(r, w) o = Sin(q) }>(x)
}"""
BIAS = """(T[TRIPS,2,2] x, T[2] w) => (T[TRIPS,2,2] y) {
  y = Scan<num_scan_inputs = 1, body = body (T[2,2] r) => (T[2,2] o) {
    q = Add(r, w) o = Sin(q)
  }>(x)
}"""
LSTM = """(T[TRIPS,1,1] x, T[1,4,1] w, T[1,4,1] r, T[1,8] b) => (T[TRIPS,1,1,1] y) {
  y = LSTM<hidden_size = 1>(x, w, r, b)
}"""
RNN = """(T[TRIPS,1,1] x, T[1,1,1] w, T[1,1,1] r, T[1,2] b) => (T[TRIPS,1,1,1] y) {
  y = RNN<hidden_size = 1>(x, w, r, b)
}"""
TRIPS = {"float16": "3000", "bfloat16": "500"}


def model_of(text, dtype):
    return parse(re.sub(r"\bT\b", dtype, text.replace("TRIPS", TRIPS[dtype])), 23)


def compare(text, dtype, engine, feeds=None):
    """Return the unit of a type, and pairs of the gradients of Σ y in it and in float64."""
    model = model_of(text, dtype)
    number = ir.DataType[dtype.upper()].numpy()
    if feeds is None:
        feeds = {value.name: np.ones(_sizes(value)) for value in model.graph.inputs}
    gradient_model = whileback.vjp(model, of="y", wrt=list(feeds))
    forward = compile_exactly(model, feeds)(feeds)
    arguments = {name: np.asarray(value).astype(number) for name, value in feeds.items()}
    arguments["y_grad"] = np.ones(np.shape(forward["y"]), number)
    got = compile(gradient_model, engine)(arguments).values()
    exact = compile_exactly(gradient_model, arguments)(widened(arguments)).values()
    pairs = zip(list(got)[-len(feeds) :], list(exact)[-len(feeds) :], strict=True)
    return UNIT[ir.DataType[dtype.upper()]], list(pairs)


def _sizes(value):
    return [size if isinstance(size, int) else {"m": 1, "k": 3}[size.value] for size in value.shape]


def assert_rounded(unit, got, exact, times=1.0):
    """Assert that a gradient is what rounding leaves of the exact one, in its largest elements."""
    assert np.max(np.abs(exact)) > 1e-6
    smallest = 2.0**-24 if got.dtype == np.float16 else 0.0
    off = np.max(np.abs(got.astype(np.float64) - exact))
    assert off <= times * unit * np.max(np.abs(exact)) + smallest


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_operators(dtype):
    """The first model of each operator."""
    cases = {case.operator: case for case in reversed(models().values())}
    found = {case.name: judge(case, dtype) for case in cases.values()}
    wrong = {name: detail for name, (status, detail) in found.items() if status == "wrong"}
    assert not wrong
    assert sum(status == "passed" for status, _ in found.values()) > 120


@pytest.mark.parametrize(("dtype", "engine"), RUNS)
@pytest.mark.parametrize("operator", SUMS)
def test_sums(operator, dtype, engine):
    """Many elements are added up without loss, also by an engine that rounds each partial sum."""
    unit, pairs = compare(SUMS[operator], dtype, engine)
    seen = [pair for pair in pairs if np.max(np.abs(pair[1])) > 1e-6]
    assert seen
    for got, exact in seen:
        assert_rounded(unit, got, exact)


@pytest.mark.parametrize("dtype", TRIPS)
@pytest.mark.parametrize("text", [LOOP, SCAN, BIAS], ids=["Loop", "Scan", "bias"])
def test_sums_over_trips(text, dtype):
    """What a loop captures gets a sum over more trips than the type can count."""
    engine = "onnxruntime" if dtype == "float16" else "reference"
    unit, pairs = compare(text, dtype, engine)
    for got, exact in pairs:
        assert_rounded(unit, got, exact, times=2.0)


@pytest.mark.parametrize("dtype", TRIPS)
@pytest.mark.parametrize("text", [LSTM, RNN], ids=["LSTM", "RNN"])
def test_saturated_gates(text, dtype):
    """Slopes that 16 bits do not tell from 0 are not made of rounded values."""
    engine = "onnxruntime" if dtype == "float16" else "reference"
    unit, pairs = compare(text, dtype, engine)
    for got, exact in pairs:
        assert_rounded(unit, got, exact, times=8.0)


# Functions whose slopes are made of squares, and where they have them.
FUNCTIONS = [
    ("Acos", -0.99, 0.99),
    ("Acosh", 1.01, 6e4),
    ("Asin", -0.99, 0.99),
    ("Asinh", -6e4, 6e4),
    ("Atan", -6e4, 6e4),
    ("Atanh", -0.99, 0.99),
    ("Erf", -3, 3),
    ("Gelu", -6e4, 6e4),
    ('Gelu<approximate = "tanh">', -6e4, 6e4),
    ("Reciprocal", 0.01, 6e4),
    ("Softsign", -6e4, 6e4),
    ("Tan", -1.5, 1.5),
]
# With what each element's rounding is compared where a slope vanishes.
FLOOR = 1e-3


@pytest.mark.parametrize(("dtype", "engine"), RUNS)
@pytest.mark.parametrize(("function", "low", "high"), FUNCTIONS)
def test_slopes_of_large_and_small_arguments(function, low, high, dtype, engine):
    """Each element is right for itself, though its square may have no room in FLOAT16."""
    text = f"(T[n] x) => (T[n] y) {{ y = {function}(x) }}"
    sizes = np.array([1e-3, 0.02, 0.3, 0.9, 1.0, 1.5, 3, 20, 250, 300, 4000, 6e4])
    x = np.concatenate([-sizes, sizes, [low, high]])
    unit, [(got, exact)] = compare(text, dtype, engine, {"x": x[(x >= low) & (x <= high)]})
    off = np.abs(got.astype(np.float64) - exact)
    smallest = 2.0**-24 if dtype == "float16" else 0.0
    assert np.all(off <= 2 * unit * np.maximum(np.abs(exact), FLOOR * unit) + smallest)


def test_weighted_means_in_bfloat16():
    """The gradient of the weights is a difference from the mean, which is not the rounded loss."""
    text = """(T[4000,3] x, T[3] w) => (T y) {
      s = Constant<value_ints = [4000]>() l = ConstantOfShape<value = int64[1] {1}>(s)
      y = SoftmaxCrossEntropyLoss(x, l, w)
    }"""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(4000, 3)), "w": np.ones(3)}
    unit, pairs = compare(text, "bfloat16", "reference", feeds)
    assert_rounded(unit, *pairs[0], times=4.0)
    # All labels are the same, so that their weight does not matter.
    assert np.max(np.abs(pairs[1][0].astype(np.float64))) < 1e-5


# Models of several types, and the inputs that have gradients.
MIXED = {
    "LayerNormalization": """(float16[2,8] x, float16[8] w, float16[8] b)
      => (float16[2,8] y, float[2,1] m, float[2,1] r) {
        y, m, r = LayerNormalization<stash_type = 1>(x, w, b)
      }""",
    "LayerNormalization in BFLOAT16": """(bfloat16[2,8] x, bfloat16[8] w, bfloat16[8] b)
      => (bfloat16[2,8] y) { y = LayerNormalization(x, w, b) }""",
    "BatchNormalization": """(float16[2,3,2] x, float[3] s, float[3] b, float[3] m, float[3] v)
      => (float16[2,3,2] y) { y = BatchNormalization(x, s, b, m, v) }""",
    "BatchNormalization, three types": """
      (float16[2,3,2] x, float16[3] s, float16[3] b, float[3] m, float[3] v)
      => (float16[2,3,2] y) { y = BatchNormalization(x, s, b, m, v) }""",
    "BatchNormalization in training": """
      (float16[2,3,2] x, float[3] s, float[3] b, float[3] m, float[3] v)
      => (float16[2,3,2] y, float[3] p, float[3] q) {
        y, p, q = BatchNormalization<training_mode = 1>(x, s, b, m, v)
      }""",
    "GroupNormalization": """(float16[2,4,3] x, float16[4] w, float16[4] b)
      => (float16[2,4,3] y) { y = GroupNormalization<num_groups = 2, stash_type = 1>(x, w, b) }""",
    "Pow": "(float16[2,3] x, float[3] e) => (float16[2,3] y) { y = Pow(x, e) }",
    "Pow with DOUBLE": "(float[2,3] x, double[3] e) => (float[2,3] y) { y = Pow(x, e) }",
    "GridSample": """(float16[1,1,4,4] x, float[1,2,3,2] g)
      => (float16[1,1,2,3] y) { y = GridSample(x, g) }""",
    "GridSample of FLOAT": """(float[1,1,4,4] x, float16[1,2,3,2] g)
      => (float[1,1,2,3] y) { y = GridSample(x, g) }""",
    "Attention": """(float16[1,2,3,4] q, float16[1,2,5,4] k, float16[1,2,5,4] v)
      => (float16[1,2,3,4] y) { y = Attention<softmax_precision = 1>(q, k, v) }""",
    "Attention in DOUBLE": """(float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v)
      => (float[1,2,3,4] y) { y = Attention<softmax_precision = 11>(q, k, v) }""",
    "Cast": """(float16[3] x) => (double[3] y) {
      a = Cast<to = 1>(x) b = Sin(a) y = Cast<to = 11>(b)
    }""",
    "CastLike": """(float16[3] x) => (double[3] y) {
      t = Constant<value = double {1}>() a = CastLike(x, t) y = Mul(a, a)
    }""",
    "Resize": """(float16[1,1,3,4] x) => (float16[1,1,6,6] y) {
      s = Constant<value = float[4] {1, 1, 2, 1.5}>() y = Resize<mode = "linear">(x, , s)
    }""",
    "Loop": """(float16[3] w, float[3] a) => (float[3] y) {
      n = Constant<value_int = 4>() t = Constant<value = bool {1}>()
      y = Loop(n, t, a) <body = body (int64 i, bool c, float[3] v) => (bool d, float[3] u) {
        d = Identity(c) f = Cast<to = 1>(w) p = Mul(v, f) u = Tanh(p)
      }>
    }""",
    "Loop in FLOAT16": """(float16[3] w, float16[3] a) => (float16[3] y) {
      n = Constant<value_int = 4>() t = Constant<value = bool {1}>()
      y = Loop(n, t, a) <body = body (int64 i, bool c, float16[3] v) => (bool d, float16[3] u) {
        d = Identity(c) p = Mul(v, w) u = Tanh(p)
      }>
    }""",
}


@pytest.mark.parametrize("name", MIXED)
def test_several_types(name):
    model = parse(MIXED[name], 24)
    rng = np.random.default_rng(1)
    feeds = {
        value.name: rng.uniform(0.4, 0.9, tuple(value.shape)).astype(value.dtype.numpy())
        for value in model.graph.inputs
    }
    of = [str(value.name) for value in model.graph.outputs]
    gradients = assert_gradient(model, of, list(feeds), feeds, second_order=True, kinks=True)
    assert {each: g.dtype for each, g in gradients.items()} == {
        each: value.dtype for each, value in feeds.items()
    }

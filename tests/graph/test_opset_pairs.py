"""Networks in the words of an old opset and of a newer one: the same values, the same gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.graph.lifts import LIFTS, TYPED_LIFTS


def const(name: str, dtype: str, values: Any) -> str:
    """Return the node of a constant."""
    array = np.array(values)
    dims = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
    return f"{name} = Constant<value = {dtype}{dims} {{{','.join(map(str, array.ravel()))}}}>() "


def ints(**lists: Any) -> str:
    return "".join(const(name, "int64", values) for name, values in lists.items())


def floats(**lists: Any) -> str:
    return "".join(const(name, "float", values) for name, values in lists.items())


# A name, the inputs, an old opset and its nodes that make y, a newer opset and its nodes.
X = "float[2,3,4] x"
IMAGE = "float[1,2,4,5] x"
PAIRS = [
    ("Softmax", X, 12, "y = Softmax(x)",
     13, ints(s=[2, 12], t=[2, 3, 4])
     + "f = Reshape(x, s) g = Softmax<axis = -1>(f) y = Reshape(g, t)"),
    ("LogSoftmax 0", X, 11, "y = LogSoftmax<axis = 0>(x)",
     13, ints(s=[1, 24], t=[2, 3, 4]) + "f = Reshape(x, s) g = LogSoftmax(f) y = Reshape(g, t)"),
    ("Softmax -1", X, 7, "y = Softmax<axis = 2>(x)", 13, "y = Softmax(x)"),
    ("Clip", X, 7, "y = Clip<min = -0.5, max = 0.75>(x)",
     11, floats(a=-0.5, b=0.75) + "y = Clip(x, a, b)"),
    ("Clip above", X, 10, "y = Clip<max = 0.75>(x)", 13, floats(b=0.75) + "y = Clip(x, , b)"),
    ("Upsample", IMAGE, 7, "y = Upsample<scales = [1.0, 1.0, 2.0, 3.0]>(x)",
     13, floats(s=[1.0, 1, 2, 3]) + 'y = Resize<coordinate_transformation_mode = "asymmetric", '
     'nearest_mode = "floor">(x, , s)'),
    ("Upsample 9", IMAGE, 9, floats(s=[1.0, 1, 2, 2]) + 'y = Upsample<mode = "linear">(x, s)',
     18, floats(s=[1.0, 1, 2, 2]) + 'y = Resize<coordinate_transformation_mode = "asymmetric", '
     'mode = "linear">(x, , s)'),
    ("Resize 10", IMAGE, 10, floats(s=[1.0, 1, 0.5, 0.6]) + 'y = Resize<mode = "linear">(x, s)',
     19, floats(s=[1.0, 1, 0.5, 0.6]) + 'y = Resize<coordinate_transformation_mode = "asymmetric", '
     'mode = "linear">(x, , s)'),
    ("Resize 11", IMAGE, 11, floats(s=[1.0, 1, 2, 0.6], r=[0.0, 0, 0, 0, 1, 1, 1, 1])
     + 'y = Resize<mode = "cubic">(x, r, s)',
     19, floats(s=[2, 0.6]) + 'y = Resize<mode = "cubic", axes = [2, 3]>(x, , s)'),
    ("Resize sizes", IMAGE, 11, "r = Constant<value = float[0] {}>() " + ints(s=[1, 2, 8, 5])
     + 'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, r, r, s)',
     18, ints(s=[8, 5]) + 'y = Resize<mode = "linear", axes = [-2, -1], '
     'coordinate_transformation_mode = "align_corners">(x, , , s)'),
    ("Resize half pixels", IMAGE, 11, floats(r=[0.0] * 8, s=[1.0, 1, 2, 0.6])
     + 'y = Resize<coordinate_transformation_mode = "tf_half_pixel_for_nn", '
     'nearest_mode = "floor">(x, r, s)',
     19, floats(s=[2, 0.6]) + 'y = Resize<axes = [2, 3], nearest_mode = "round_prefer_ceil">'
     "(x, , s)"),
    ("RoiAlign", "float[1,2,4,5] x, float[2,4] r", 10,
     ints(i=[0, 0]) + "a = Abs(r) y = RoiAlign<output_height = 2, output_width = 2, "
     "sampling_ratio = 1>(x, a, i)",
     16, ints(i=[0, 0]) + "a = Abs(r) y = RoiAlign<output_height = 2, output_width = 2, "
     'sampling_ratio = 1, coordinate_transformation_mode = "output_half_pixel">(x, a, i)'),
    ("DFT", "float[2,3,4,1] x", 17, "y = DFT<axis = 2, onesided = 1>(x)",
     20, ints(a=2) + "y = DFT<onesided = 1>(x, , a)"),
    ("DFT first axis", "float[2,3,4,2] x", 17, "y = DFT<inverse = 1>(x)",
     20, ints(a=-3) + "y = DFT<inverse = 1>(x, , a)"),
    *((f"GridSample {old}", "float[1,2,4,5] x, float[1,2,3,2] g", 16,
       f'y = GridSample<mode = "{old}", padding_mode = "border">(x, g)',
       20, f'y = GridSample<mode = "{new}", padding_mode = "border">(x, g)')
      for old, new in (("bilinear", "linear"), ("bicubic", "cubic"))),
    ("BatchNormalization", "float[2,3,4] x, float[3] s, float[3] b", 7,
     "v = Exp(b) y = BatchNormalization<epsilon = 0.1>(x, s, b, b, v)",
     15, "v = Exp(b) y = BatchNormalization<epsilon = 0.1>(x, s, b, b, v)"),
    ("BatchNormalization spatial", "float[2,3,4] x, float[3,4] s, float[3,4] b", 7,
     "v = Exp(b) y = BatchNormalization<epsilon = 0.1, spatial = 0>(x, s, b, b, v)",
     14, floats(e=0.1) + "v = Exp(b) c = Sub(x, b) w = Add(v, e) d = Sqrt(w) z = Div(c, d) "
     "m = Mul(z, s) y = Add(m, b)"),
    ("Dropout 7", X, 7, "y = Dropout<ratio = 0.75>(x)", 13, "y = Identity(x)"),
    ("Dropout 10", X, 10, "y, m = Dropout<ratio = 0.75>(x)", 12, "y, m = Dropout(x)"),
    ("ReduceSum", X, 11, "y = ReduceSum<axes = [1], keepdims = 0>(x)",
     13, ints(a=[1]) + "y = ReduceSum<keepdims = 0>(x, a)"),
    ("ReduceSum of all", X, 7, "y = ReduceSum(x)",
     13, ints(a=[0, 1, 2]) + "y = ReduceSum<noop_with_empty_axes = 1>(x, a)"),
    *((f"{name} {old}", X, old, f"p = Exp(x) y = {name}<axes = [0, -1]>(p)" if old > 10
       else f"p = Exp(x) y = {name}<axes = [0, 2]>(p)",
       18, ints(a=[0, 2]) + f"p = Exp(x) y = {name}(p, a)")
      for name in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
      for old in (7, 13)),
    ("Cast", X, 7, "h = Cast<to = 11>(x) y = Cast<to = 1>(h)",
     19, "h = Cast<to = 11, saturate = 0>(x) y = Cast<to = 1>(h)"),
    ("Pad", X, 7, "y = Pad<pads = [0, 1, 2, 1, 0, -1], value = 0.5>(x)",
     11, ints(p=[0, 1, 2, 1, 0, -1]) + floats(v=0.5) + "y = Pad(x, p, v)"),
    ("Pad edge", X, 10, 'y = Pad<mode = "edge", pads = [0, 1, 0, 0, 2, 0]>(x)',
     18, ints(p=[1, 2], a=[1]) + 'y = Pad<mode = "edge">(x, p, , a)'),
    ("Pad reflect", X, 11, ints(p=[0, 1, 0, 0, 2, 0]) + 'y = Pad<mode = "reflect">(x, p)',
     19, ints(p=[1, 2], a=[-2]) + 'y = Pad<mode = "reflect">(x, p, , a)'),
    ("Slice", X, 7, "y = Slice<axes = [1, 2], starts = [1, -3], ends = [3, 100]>(x)",
     10, ints(s=[1, -3], e=[3, 100], a=[1, 2]) + "y = Slice(x, s, e, a)"),
    ("Slice first axes", X, 9, "y = Slice<starts = [0, 1], ends = [1, 2]>(x)",
     13, ints(s=[0, 1], e=[1, 2], a=[0, -2], t=[1, 1]) + "y = Slice(x, s, e, a, t)"),
    ("TopK", X, 7, "y, i = TopK<k = 2, axis = 1>(x)",
     11, ints(k=[2]) + "y, i = TopK<axis = 1, largest = 1, sorted = 1>(x, k)"),
    ("TopK 10", X, 10, ints(k=[3]) + "y, i = TopK(x, k)", 11, ints(k=[3]) + "y, i = TopK(x, k)"),
    ("Squeeze", "float[2,1,3,1] x", 11, "y = Squeeze<axes = [1, -1]>(x)",
     13, ints(a=[1, 3]) + "y = Squeeze(x, a)"),
    ("Unsqueeze", X, 7, "y = Unsqueeze<axes = [0, 2]>(x)",
     13, ints(a=[-5, 2]) + "y = Unsqueeze(x, a)"),
    ("Split", X, 11, "a, b = Split<axis = 2, split = [1, 3]>(x) y = Concat<axis = 2>(b, a)",
     13, ints(s=[1, 3]) + "a, b = Split<axis = 2>(x, s) y = Concat<axis = 2>(b, a)"),
    ("Split equally", X, 7, "a, b = Split<axis = 2>(x) y = Sub(a, b)",
     18, "a, b = Split<axis = 2, num_outputs = 2>(x) y = Sub(a, b)"),
    ("Scatter", "float[3,3] x, float[1,3] u", 9, ints(i=[[2, 0, 1]]) + "y = Scatter(x, i, u)",
     11, ints(i=[[2, 0, 1]]) + "y = ScatterElements(x, i, u)"),
    ("Gemm", "float[2,3] x, float[3,4] w, float[4] b", 7, "y = Gemm(x, w, b)",
     11, "p = Gemm(x, w) y = Add(p, b)"),
    ("Gemm 9", "float[2,3] x, float[3,4] w, float[4] b", 9,
     "y = Gemm<alpha = 0.5, beta = 2.0>(x, w, b)",
     13, floats(h=0.5, t=2.0) + "m = MatMul(x, w) p = Mul(m, h) c = Mul(b, t) y = Add(p, c)"),
    ("GroupNormalization", "float[2,4,3] x, float[2] s, float[2] b", 18,
     "y = GroupNormalization<num_groups = 2>(x, s, b)",
     21, ints(i=[0, 0, 1, 1]) + "k = Gather(s, i) c = Gather(b, i) "
     "y = GroupNormalization<num_groups = 2>(x, k, c)"),
    ("Scan", "float[2,3] s, float[2,4,3] x", 8,
     "l, y = Scan<num_scan_inputs = 1, body = step (float[3] a, float[3] r) => (float[3] b, "
     "float[3] o) { m = Mul(a, r) b = Tanh(m) o = Neg(b) }>(, s, x)",
     9, "t = Transpose<perm = [1, 0, 2]>(x) l, z = Scan<num_scan_inputs = 1, body = step "
     "(float[2,3] a, float[2,3] r) => (float[2,3] b, float[2,3] o) "
     "{ m = Mul(a, r) b = Tanh(m) o = Neg(b) }>(s, t) y = Transpose<perm = [1, 0, 2]>(z)"),
    ("DepthToSpace", "float[1,8,2,3] x", 9, "y = DepthToSpace<blocksize = 2>(x)",
     11, 'y = DepthToSpace<blocksize = 2, mode = "DCR">(x)'),
    ("Flatten", X, 9, "y = Flatten<axis = 2>(x)", 11, "y = Flatten<axis = -1>(x)"),
    ("Gather", X, 7, ints(i=[1, 0]) + "y = Gather<axis = 1>(x, i)",
     11, ints(i=[-2, -3]) + "y = Gather<axis = -2>(x, i)"),
    ("Pow", X, 7, floats(e=[2.0]) + "p = Exp(x) y = Pow(p, e)",
     12, ints(e=[2]) + "p = Exp(x) y = Pow(p, e)"),
    ("Gelu", X, 9, floats(h=0.5, o=1.0, r=2**-0.5)
     + "a = Mul(x, r) b = Erf(a) c = Add(b, o) d = Mul(x, c) y = Mul(d, h)", 20, "y = Gelu(x)"),
    ("LayerNormalization", "float[2,3] x, float[3] s, float[3] b", 11, floats(e=0.1)
     + "m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) q = Mul(c, c) v = ReduceMean<axes = [-1]>(q) "
     "w = Add(v, e) d = Sqrt(w) z = Div(c, d) k = Mul(z, s) y = Add(k, b)",
     17, "y = LayerNormalization<epsilon = 0.1>(x, s, b)"),
    ("HardSwish", X, 9, "h = HardSigmoid<alpha = 0.1666666716337204>(x) y = Mul(x, h)",
     14, "y = HardSwish(x)"),
    ("Mish", X, 7, "s = Softplus(x) t = Tanh(s) y = Mul(x, t)", 18, "y = Mish(x)"),
    ("Reshape", X, 7, ints(s=[0, -1, 2]) + "y = Reshape(x, s)",
     14, ints(s=[2, 6, 2]) + "y = Reshape<allowzero = 1>(x, s)"),
    ("Shape", X, 9, ints(s=[1], e=[3], a=[0]) + "n = Shape(x) k = Slice<axes = [0], starts = [1], "
     "ends = [3]>(n) c = Cast<to = 1>(k) m = ReduceSum<keepdims = 0>(c) y = Mul(x, m)",
     15, "n = Shape<start = 1, end = 3>(x) c = Cast<to = 1>(n) m = ReduceSum<keepdims = 0>(c) "
     "y = Mul(x, m)"),
    ("Where", X, 7, floats(o=0.0) + "c = Greater(x, o) f = Cast<to = 1>(c) n = Not(c) "
     "g = Cast<to = 1>(n) e = Exp(x) a = Mul(f, e) b = Mul(g, x) y = Add(a, b)",
     16, floats(o=0.0) + "c = Greater(x, o) e = Exp(x) y = Where(c, e, x)"),
]  # fmt: skip

# A name, the inputs, and nodes that are written the same in all of these opsets.
SAME = [
    ("AveragePool", IMAGE, "y = AveragePool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], "
     "strides = [2, 2]>(x)", (7, 10, 11, 19, 22)),
    ("AveragePool padding", IMAGE, "y = AveragePool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], "
     "strides = [2, 1], count_include_pad = 1>(x)", (7, 10, 11, 19, 22)),
    ("AveragePool ceil", IMAGE, "y = AveragePool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], "
     "strides = [2, 2], ceil_mode = 1>(x)", (10, 11, 19, 22)),
    ("AveragePool ceil padding", IMAGE, "y = AveragePool<kernel_shape = [3, 4], "
     "pads = [1, 1, 1, 1], strides = [2, 2], ceil_mode = 1, count_include_pad = 1>(x)",
     (10, 11, 19, 22)),
    ("AveragePool same", IMAGE, 'y = AveragePool<kernel_shape = [3, 2], auto_pad = "SAME_LOWER", '
     "strides = [2, 2]>(x)", (7, 10, 11, 19, 22)),
    ("MaxPool", IMAGE, "y = MaxPool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 2]>"
     "(x)", (7, 8, 10, 11, 12, 22)),
    ("MaxPool ceil", IMAGE, "y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2], "
     "dilations = [1, 2], ceil_mode = 1>(x)", (10, 11, 12, 22)),
    ("LpPool", IMAGE, "y = LpPool<kernel_shape = [2, 2], strides = [2, 1], p = 3>(x)",
     (7, 11, 18, 22)),
    ("GlobalAveragePool", IMAGE, "y = GlobalAveragePool(x)", (7, 22)),
    ("GlobalMaxPool", IMAGE, "y = GlobalMaxPool(x)", (7, 22)),
    ("Conv", "float[1,2,5] x, float[4,1,3] w, float[4] b",
     "y = Conv<group = 2, pads = [1, 1], strides = [2]>(x, w, b)", (7, 11, 22)),
    ("ConvTranspose", "float[1,2,3] x, float[2,2,2] w, float[2] b",
     "y = ConvTranspose<strides = [2], output_padding = [1]>(x, w, b)", (7, 11, 22)),
    ("InstanceNormalization", "float[2,3,4] x, float[3] s, float[3] b",
     "y = InstanceNormalization<epsilon = 0.1>(x, s, b)", (7, 22)),
    ("BatchNormalization", "float[2,3,4] x, float[3] s, float[3] b, float[3] m",
     "v = Exp(m) y = BatchNormalization<epsilon = 0.1>(x, s, b, m, v)", (9, 14, 15)),
    ("LRN", IMAGE, "y = LRN<size = 3, alpha = 0.5>(x)", (7, 13)),
    ("RNN", "float[3,2,2] x, float[1,3,2] w, float[1,3,3] r, float[1,6] b",
     "y, h = RNN<hidden_size = 3>(x, w, r, b)", (7, 14, 22)),
    ("GRU", "float[3,2,2] x, float[1,9,2] w, float[1,9,3] r, float[1,18] b",
     "y, h = GRU<hidden_size = 3, linear_before_reset = 1>(x, w, r, b)", (7, 14, 22)),
    ("LSTM", "float[3,2,2] x, float[1,12,2] w, float[1,12,3] r, float[1,24] b",
     "y, h, c = LSTM<hidden_size = 3>(x, w, r, b)", (7, 14, 22)),
    ("OneHot", "float[2] v", ints(i=[2, 0, 1], d=[4]) + "y = OneHot<axis = 0>(i, d, v)", (9, 11)),
    ("ScatterElements", "float[3,3] x, float[1,3] u",
     ints(i=[[2, 0, 1]]) + "y = ScatterElements<axis = 0>(x, i, u)", (11, 13, 16, 18)),
    ("ScatterND", "float[3,3] x, float[2,3] u",
     ints(i=[[2], [0]]) + "y = ScatterND(x, i, u)", (11, 13, 16, 18)),
    ("Loop", "float[2] x", ints(n=3) + const("c", "bool", 1)
     + "y, s = Loop(n, c, x) <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w, "
     "float[2] t) { on = Identity(go) w = Sin(v) t = Neg(v) }>", (7, 11, 13, 16, 19, 21)),
    ("If", "float[2] x", const("c", "bool", 1)
     + "y = If(c) <then_branch = a () => (float[2] p) { p = Exp(x) }, "
     "else_branch = b () => (float[2] q) { q = Sin(x) }>", (7, 11, 13, 16, 19, 21)),
    *((name, X, f"y = {name}(x)", (7, 13, 21)) for name in
      ("Abs", "Neg", "Exp", "Tanh", "Sigmoid", "Relu", "Elu", "Selu", "LeakyRelu", "Softplus",
       "Softsign", "HardSigmoid", "Sin", "Identity", "Transpose", "Sum", "Mean",
       "Max", "Min", "Flatten", "Squeeze")),
    *((name, "float[2,3] x, float[3] w", f"e = Exp(w) p = Exp(x) y = {name}(p, e)", (7, 9, 13, 16))
      for name in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu")),
    *((name, "float[2,3] x, float[3] w", f"y = {name}(x, w, x)", (8, 13))
      for name in ("Max", "Min", "Sum", "Mean")),
    ("MatMul", "float[2,3] x, float[3,2] w", "y = MatMul(x, w)", (7, 9, 13)),
    ("Concat", "float[2,3] x, float[2,1] w", "y = Concat<axis = 1>(x, w)", (7, 11, 13)),
    ("Expand", "float[2,1] x", ints(s=[3, 1, 2]) + "y = Expand(x, s)", (8, 13)),
    ("Tile", "float[2,3] x", ints(r=[2, 1]) + "y = Tile(x, r)", (7, 13)),
    ("Einsum", "float[2,3] x, float[3,2] w", 'y = Einsum<equation = "ij,jk->ik">(x, w)', (12, 21)),
    ("CumSum", X, ints(a=1) + "y = CumSum<reverse = 1>(x, a)", (11, 14)),
    ("Mod", "float[2,3] x, float[3] w", "e = Exp(w) y = Mod<fmod = 1>(x, e)", (10, 13)),
    ("Losses", "float[3,4] x, float[4] w", ints(t=[0, 3, 1]) + "v = Exp(w) "
     "y = SoftmaxCrossEntropyLoss(x, t, v)", (12, 13)),
    ("NLL", "float[3,4] x, float[4] w", ints(t=[0, 3, 1]) + "v = Exp(w) "
     "y = NegativeLogLikelihoodLoss(x, t, v)", (12, 13, 22)),
    ("Celu", X, "y = Celu(x)", (12, 21)),
    ("GatherND", X, ints(i=[[0, 1], [1, 2]]) + "y = GatherND(x, i)", (11, 12, 13)),
    ("GatherElements", X, ints(i=[[[0, 1, 2, 0]]]) + "y = GatherElements<axis = 1>(x, i)",
     (11, 13)),
    ("Hardmax", X, "h = Hardmax<axis = 2>(x) y = Mul(h, x)", (7, 11, 13)),
    ("ArgMax", X, "i = ArgMax<axis = 2>(x) c = Cast<to = 1>(i) y = Mul(c, x)", (7, 11, 12, 13)),
    ("Mvn", IMAGE, "y = MeanVarianceNormalization<axes = [2, 3]>(x)", (9, 13)),
    ("Trigonometry", X, "a = Cosh(x) b = Sinh(x) c = Atan(a) d = Asinh(b) y = Mul(c, d)", (9, 22)),
]  # fmt: skip


def judged(inputs: str, opset: int, nodes: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return y as the model as it is computes it, and judged gradients of all inputs."""
    rng, feeds = np.random.default_rng(3), {}
    for declaration in inputs.split(", "):
        dims, name = declaration.removeprefix("float[").split("] ")
        shape = [int(dim) for dim in dims.split(",")]
        numbers = np.linspace(-1.5, 1.6, int(np.prod(shape))) + 0.001 * len(feeds)
        feeds[name] = rng.permutation(numbers).reshape(shape).astype(np.float32)
    y = compile(parse(f"({inputs}) => (float[] y) {{ {nodes} }}", opset), threads=1)(feeds)["y"]
    flat = f"({inputs}) => (float[n] line) {{ {nodes} {ints(any=[-1])} line = Reshape(y, any) }}"
    return y, assert_gradient(
        flat, ["line"], list(feeds), feeds, opset=opset, elements=12, directions=2, kinks=True
    )


def assert_equal(inputs: str, spellings: Sequence[tuple[int, str]]) -> None:
    """Judge a network in the words of several opsets, and compare what comes out."""
    (y, gradients), *others = [judged(inputs, opset, nodes) for opset, nodes in spellings]
    for other, other_gradients in others:
        np.testing.assert_allclose(other, y, rtol=2e-6, atol=2e-6)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(other_gradients[name], gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "old", "words", "new", "newer_words"),
    [pair[1:] for pair in PAIRS],
    ids=[pair[0] for pair in PAIRS],
)
def test_pairs(inputs: str, old: int, words: str, new: int, newer_words: str) -> None:
    assert_equal(inputs, [(old, words), (new, newer_words)])


@pytest.mark.parametrize(
    ("inputs", "nodes", "opsets"), [each[1:] for each in SAME], ids=[each[0] for each in SAME]
)
def test_words_that_stayed(inputs: str, nodes: str, opsets: Sequence[int]) -> None:
    assert_equal(inputs, [(opset, nodes) for opset in opsets])


def test_every_lift_has_its_pair() -> None:
    spelled = [(old, f"{words} ") for _, _, old, words, *_ in PAIRS]
    spelled += [(min(opsets), words) for _, _, words, opsets in SAME]
    without = {
        (op_type, version)
        for op_type, version in {*LIFTS, *TYPED_LIFTS}
        if not any(old < version and re.search(rf"\b{op_type}\b", words) for old, words in spelled)
    }
    assert without == set()

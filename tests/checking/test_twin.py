import math

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from whileback.checking.twin import float64_twin
from whileback.engines import compile

HEADER = '<ir_version: 10, opset_import: ["" : 21]> g '


def build(text):
    return ir.from_onnx_text(HEADER + text)


def twin_of(model):
    """Return the twin, after a look whether the model itself is still the same."""
    before = ir.to_proto(model).SerializeToString()
    twin = float64_twin(model)
    assert ir.to_proto(model).SerializeToString() == before
    onnx.checker.check_model(ir.to_proto(twin), full_check=True)
    return twin


CONSTANTS = """(TYPE[2] x) => (TYPE[2] y) <TYPE[2] w = {TWO, THREE}> {
  half = Constant<value_float = 0.5>()
  two = Constant<value_floats = [2.0, 4.0]>()
  three = Constant<value = float[2] {3, 3}>()
  n = Constant<value = int64[1] {2}>()
  zeros = ConstantOfShape(n)
  ones = ConstantOfShape<value = float[1] {1}>(n)
  a = Add(two, half)
  b = Add(three, zeros)
  ab = Mul(a, b)
  abo = Add(ab, ones)
  r = CastLike(abo, x)
  s = Cast<to = CODE>(abo)
  rs = Add(r, s)
  xw = Mul(x, w)
  y = Add(rs, xw)
}"""


@pytest.mark.parametrize(
    ("dtype", "code", "two", "three"),
    [
        ("float", 1, 2, 3),
        ("double", 11, 2, 3),
        ("float16", 10, 0x4000, 0x4200),  # the text format has the bits of small floats
        ("bfloat16", 16, 0x4000, 0x4040),
    ],
)
def test_every_source_of_floats_is_widened(dtype, code, two, three):
    text = CONSTANTS.replace("TYPE", dtype).replace("CODE", str(code))
    text = text.replace("TWO", str(two)).replace("THREE", str(three))
    twin = twin_of(build(text))
    x = np.array([0.1, 0.2])
    want = 2 * ((np.array([2, 4]) + 0.5) * 3 + 1) + x * [2, 3]
    for engine in ("onnxruntime", "reference"):
        got = compile(twin, engine)(x=x)["y"]
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-15)


def test_subgraphs_and_sequences_are_widened():
    twin = twin_of(
        build(
            """(float[2] x, bool go) => (float[2] y, seq(float[2]) s, float[N,2] t) {
              n = Constant<value = int64 {3}>()
              s0 = SequenceEmpty()
              y, s, t = Loop(n, "", x, s0) <body = b (int64 i, bool c, float[2] v, seq(float[2]) a)
                  => (bool d, float[2] u, seq(float[2]) e, float[2] r) {
                u = If(go) <then_branch = t () => (float[2] p) {
                  k = Constant<value = float {0.1}>()
                  p = Mul(v, k)
                }, else_branch = f () => (float[2] q) { q = Neg(v) }>
                r = Identity(u)
                e = SequenceInsert(a, u)
                d = Identity(c)
              }>
            }"""
        )
    )
    tenth = np.float64(np.float32(0.1))
    got = compile(twin)(x=[1.0, 2.0], go=True)
    want = np.array([[1.0, 2.0]]) * np.array([[tenth], [tenth**2], [tenth**3]])
    np.testing.assert_allclose(got["t"], want, rtol=1e-15)
    np.testing.assert_allclose(np.stack(got["s"]), want, rtol=1e-15)
    np.testing.assert_array_equal(got["y"], got["t"][2])


def test_random_numbers_and_normalizations_are_widened():
    twin = twin_of(
        build(
            """(float[2,4] x) => (float[2,4] y, float[3] r) <float[4] s = {1, 1, 1, 2}> {
              r = RandomNormal<shape = [3]>()
              y = LayerNormalization<axis = -1>(x, s)
            }"""
        )
    )
    x = np.random.default_rng(0).normal(size=(2, 4))
    got = compile(twin)(x=x)
    centred = x - x.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + np.float32(1e-5)) * [1, 1, 1, 2]
    np.testing.assert_allclose(got["y"], want, rtol=1e-12)
    assert got["r"].dtype == np.float64


def test_an_operator_without_double_in_its_schema_keeps_float():
    twin = twin_of(
        build(
            """(uint8[2] x, float scale) => (float[2] y) {
              d = DequantizeLinear(x, scale)
              y = Exp(d)
            }"""
        )
    )
    got = compile(twin)(x=[1, 2], scale=0.5)
    np.testing.assert_allclose(got["y"], np.exp([0.5, 1.0]), rtol=1e-15)


def test_old_opsets_and_functions_are_brought_into_normal_form():
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
        g (float[3] x) => (float[1] y) {
          a = local.twice(x)
          b = Erf(a)
          y = ReduceMean<axes = [0]>(b)
        }
        <domain: "local", opset_import: ["" : 13]> twice (v) => (w) { w = Add(v, v) }"""
    )
    x = np.array([0.1, -0.2, 0.4])
    got = compile(twin_of(model))(x=x)["y"]
    np.testing.assert_allclose(got, [np.mean([math.erf(2 * v) for v in x])], rtol=1e-14)


def test_an_operator_that_does_not_allow_double_is_computed_by_its_definition():
    text = """(float[1,2,3,4] x, float[1,3,2] cos, float[1,3,2] sin) => (float[1,2,3,4] y) {
      y = RotaryEmbedding(x, cos, sin)
    }"""
    twin = float64_twin(ir.from_onnx_text(HEADER.replace("21", "23") + text))
    rng = np.random.default_rng(0)
    x, cos, sin = (
        rng.normal(size=(1, 2, 3, 4)),
        rng.normal(size=(1, 3, 2)),
        rng.normal(size=(1, 3, 2)),
    )
    a, b = x[..., :2], x[..., 2:]
    want = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    np.testing.assert_allclose(compile(twin)(x=x, cos=cos, sin=sin)["y"], want, rtol=1e-13)


def test_arguments_tell_ranks_that_expansions_need():
    text = """(float[n] x, int64[r] shape, float[1,1,2] w) => (float[m] y) {
      image = Reshape(x, shape) z = ConvTranspose(image, w)
      flat = Constant<value_ints = [-1]>() y = Reshape(z, flat)
    }"""
    feeds = {"x": np.array([1.0, 2]), "shape": np.array([1, 1, 2]), "w": np.array([[[3.0, 4]]])}
    twin = float64_twin(build(text), feeds)
    assert "ConvTranspose" not in [node.op_type for node in twin.graph]
    np.testing.assert_allclose(compile(twin)(feeds)["y"], [3, 10, 8], rtol=1e-15)

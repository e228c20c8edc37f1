"""Straight-through gradients of quantising and of its inverse."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.gradient.rules.quantization.straight import OPTION, gradients, judge
from tests.judge import parse

from whileback.checking.unrounded import without_rounding
from whileback.engines import compile
from whileback.errors import EngineError, NoGradientError, UnsupportedError
from whileback.gradient import vjp

X = np.array([[0.3, 1.2, -2.9, 40.3], [1.1, -0.6, 0.2, 700.0]], np.float32)
TYPES = {
    "INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767), "UINT16": (0, 65535),
    "INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3),
    "FLOAT8E4M3FN": (-448, 448), "FLOAT8E5M2": (-57344, 57344),
    "FLOAT8E4M3FNUZ": (-240, 240), "FLOAT8E5M2FNUZ": (-57344, 57344),
}  # fmt: skip
# Each with its scales, and these as they are broadcast to X.
SCALES = {
    "tensor": ("", np.float32(0.5), np.full((2, 4), 0.5)),
    "list of one": ("", np.float32([0.5]), np.full((2, 4), 0.5)),
    "axis": ("axis = -1", np.float32([0.5, 0.25, 1, 2]), np.array([[0.5, 0.25, 1, 2]] * 2)),
    "first axis": ("axis = 0", np.float32([0.5, 2]), np.array([[0.5] * 4, [2.0] * 4])),
    "blocks": (
        "axis = 1, block_size = 3",
        np.float32([[0.5, 2], [1, 0.25]]),
        np.array([[0.5, 0.5, 0.5, 2], [1, 1, 1, 0.25]]),
    ),
}


def pair(type_: str, attributes: str, scale: np.ndarray, x: str = "float[2,4]") -> str:
    """Return a model that quantises x to a type and back, without zero points."""
    dtype = f"output_dtype = {int(ir.DataType[type_])}"
    both = ", ".join(filter(None, [attributes, dtype]))
    shape = "" if scale.ndim == 0 else f"[{','.join(map(str, scale.shape))}]"
    return f"""<ir_version: 10, opset_import: ["": {25 if type_.endswith("INT2") else 21}]>
      model ({x} x, float{shape} s) => (float[2,4] y) {{
        q = QuantizeLinear<{both}>(x, s)
        y = DequantizeLinear{f"<{attributes}>" if attributes else ""}(q, s)
      }}"""


@pytest.mark.parametrize("type_", TYPES)
def test_a_pair_passes_on_what_is_inside_of_the_range(type_: str) -> None:
    low, high = TYPES[type_]
    for attributes, scale, spread in SCALES.values():
        inside = (X / spread >= low) & (X / spread <= high)
        cotangent = np.linspace(1, 2, 8, dtype=np.float32).reshape(2, 4)
        got = gradients(pair(type_, attributes, scale), {"x": X, "s": scale}, cotangent)
        np.testing.assert_array_equal(got["x"], np.where(inside, cotangent, 0))


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("type_", ["INT8", "UINT4", "FLOAT8E4M3FN"])
def test_scales_get_the_gradient_of_lsq(type_: str, kind: str) -> None:
    """ds = Σ dy·(q - x/s), and q alone outside of the range; numbers from PyTorch's formula."""
    attributes, scale, spread = SCALES[kind]
    low, high = TYPES[type_]
    model = pair(type_, attributes, scale)
    inputs = {"x": X, "s": scale}
    q = compile(parse(model))(inputs)["y"] / spread
    units = X / spread
    terms = np.where((units >= low) & (units <= high), q - units, q)
    got = gradients(model, inputs, np.ones((2, 4), np.float32))["s"]
    want = np.zeros(scale.shape)
    for index in np.ndindex(2, 4):
        owner = {
            "tensor": (), "list of one": (0,), "axis": index[1:], "first axis": index[:1],
            "blocks": (index[0], index[1] // 3),
        }[kind]  # fmt: skip
        want[owner] += terms[index]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("x", ["float[2,4]", "float[M,N]"])
@pytest.mark.parametrize("kind", SCALES)
def test_without_rounding_it_is_what_differences_say(kind: str, x: str) -> None:
    attributes, scale, _ = SCALES[kind]
    text = pair("INT8", attributes, scale, x)
    text = text.replace("q = Quant", "h = Mul(x, x) q = Quant").replace(
        "Linear<axis", "Linear<axis"
    )
    text = text.replace("(x, s)", "(h, s)").replace("y = Dequant", "d = Dequant")
    text = text.replace("(q, s)\n", "(q, s) y = Sin(d)\n")
    judge(text, ["y"], ["x", "s"], {"x": np.sqrt(np.abs(X)), "s": scale})


def test_zero_points() -> None:
    model = """(float[2,4] x, float[4] s) => (float[2,4] y) {
      z = Constant<value = int8[4] {3, 0, -7, 100}>()
      q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Sin(d)
    }"""
    s = np.float32([0.5, 0.25, 1, 2])
    got = judge(model, ["y"], ["x", "s"], {"x": X, "s": s})
    assert got["x"][0, 3] != 0 and got["x"][1, 3] == 0


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_unknown_ranks(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    model = """(float[N] x, int64[R] shape, float[K] s) => (float[M] y) {
      square = Mul(x, x) h = Reshape(square, shape)
      q = QuantizeLinear<axis = -1, output_dtype = 3>(h, s)
      d = DequantizeLinear<axis = -1>(q, s)
      e = Sin(d) flat = Constant<value_ints = [-1]>() y = Reshape(e, flat)
    }"""
    x = np.linspace(12, 3, size, dtype=np.float32)
    s = np.float32([0.5, 0.25, 0.125])
    judge(model, ["y"], ["x", "s"], {"x": x, "shape": np.array(shape, np.int64), "s": s})


def test_a_scale_of_unknown_rank_is_refused_with_what_to_do() -> None:
    model = """(float[2,4] x, float[N] t, int64[R] shape) => (float[2,4] y) {
      s = Reshape(t, shape) q = QuantizeLinear<output_dtype = 3>(x, s) y = DequantizeLinear(q, s)
    }"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(model), "y", "x", quantized=OPTION)
    assert str(caught.value) == (
        "Scale 's' of 'q' is FLOAT[?]: whether it is for all, for rows or for blocks shows in its "
        "rank. Declare its shape; dimensions may be symbols."
    )


@pytest.mark.parametrize("dtype", [np.float16])
def test_narrow_floats(dtype: type) -> None:
    model = """(float16[2,4] x, float16 s) => (float16[2,4] y) {
      q = QuantizeLinear<output_dtype = 3>(x, s) y = DequantizeLinear(q, s)
    }"""
    x = np.minimum(X, 60).astype(dtype)
    got = gradients(model, {"x": x, "s": dtype(0.5)}, np.ones((2, 4), dtype))
    assert got["x"].dtype == got["s"].dtype == dtype
    np.testing.assert_array_equal(got["x"], np.ones((2, 4)))


def test_a_type_that_the_runtime_does_not_know() -> None:
    model = pair("FLOAT4E2M1", "", np.float32(0.5)).replace("21", "23").replace("10,", "11,")
    with pytest.raises(EngineError):
        compile(parse(model))
    plain = without_rounding(vjp(parse(model), "y", "x", quantized=OPTION))
    got = compile(plain)(x=X, s=np.float32(0.5), y_grad=np.ones((2, 4), np.float32))
    np.testing.assert_array_equal(got["x_grad"], np.abs(X / 0.5) <= 6)


def test_dequantising_what_is_given_rounds_nothing() -> None:
    model = """(uint8[2,3] q, float[3] s, float[3,2] a) => (float[2,2] y) {
      z = Constant<value = uint8[3] {3, 0, 128}>()
      t = Mul(s, s) d = DequantizeLinear(q, t, z) y = MatMul(d, a)
    }"""
    q = np.array([[0, 7, 255], [3, 1, 90]], np.uint8)
    inputs = {"q": q, "s": np.float32([0.5, 0.25, 1]), "a": X.reshape(-1)[:6].reshape(3, 2)}
    judge(model, ["y"], ["s", "a"], inputs, rounds=False)
    assert vjp(parse(model), "y", "s")


def test_dynamic_quantisation() -> None:
    """(y - z)·s is x but for rounding, whatever the scale is."""
    model = """(float[2,4] x) => (float[2,4] y) {
      h = Sin(x) q, s, z = DynamicQuantizeLinear(h) d = DequantizeLinear(q, s, z) y = Mul(d, d)
    }"""
    judge(model, ["y"], ["x"], {"x": X / 50})
    pair = """(float[2,4] x) => (float[2,4] y) {
      q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)
    }"""
    cotangent = np.linspace(1, 2, 8, dtype=np.float32).reshape(2, 4)
    got = gradients(pair, {"x": X}, cotangent)["x"]
    np.testing.assert_allclose(got, cotangent, rtol=1e-6)


REARRANGED = {
    "views": "k = Constant<value_ints = [4, 2]>() p = Reshape(q, k) r = Transpose(p)",
    "joined": "r = Concat<axis = 0>(q, q, more)",
    "split": "p, r = Split<axis = 1, num_outputs = 2>(q)",
    "picked": "k = Constant<value_ints = [3, 0, 3]>() r = Gather<axis = 1>(q, k)",
    "sliced": """a = Constant<value_ints = [1]>() b = Constant<value_ints = [3]>()
      r = Slice(q, a, b, a)""",
    "padded": """w = Constant<value_ints = [0, 1, 1, 2]>() v = Constant<value = int8 {5}>()
      r = Pad(q, w, v)""",
    "tiled": "k = Constant<value_ints = [2, 1]>() r = Tile(q, k)",
    "largest": """k = Constant<value_ints = [1, 2, 2, 2]>() p = Reshape(q, k)
      r = MaxPool<kernel_shape = [2, 2]>(p)""",
    "clipped": """w = Constant<value = int8 {-4}>() v = Constant<value = int8 {60}>()
      r = Clip(q, w, v)""",
    "larger": "r = Max(q, more)",
    "chosen": "c = Less(q, more) r = Where(c, q, more)",
    "converted": "i = Cast<to = 6>(q) j = Cast<to = 6>(more) k = Mul(i, j) r = Add(k, i)",
    "sequences": """p = SequenceConstruct(q, more) k = Constant<value_int = 0>()
      t = SequenceAt(p, k) u = SequenceInsert(p, t) r = ConcatFromSequence<axis = 0>(u)""",
}


@pytest.mark.parametrize("body", REARRANGED.values(), ids=REARRANGED)
def test_between_the_two_whole_numbers_are_handed_on(body: str) -> None:
    back = "f = Cast<to = 1>(r) y = Sin(f)" if "Cast" in body else "d = DequantizeLinear(r, s, z)"
    model = f"""(float[2,4] x, int8[2,4] more) => (float[] y) {{
      s = Constant<value = float {{0.5}}>() z = Constant<value = int8 {{3}}>()
      q = QuantizeLinear(x, s, z)
      {body}
      {back}{"" if "Cast" in body else " y = Sin(d)"}
    }}"""
    more = np.array([[1, 2, -3, 100], [5, 7, 2, 0]], np.int8)
    judge(model, ["y"], ["x"], {"x": X, "more": more})


@pytest.mark.parametrize("condition", [True, False])
def test_in_branches_and_loops(condition: bool) -> None:
    """Whole numbers are a loop's state, and what a branch gives."""
    model = """(float[4] x, float s, int64 n, bool c) => (float[4] y, float[K,4] f) {
      z = Constant<value = int8 {3}>()
      q = QuantizeLinear(x, s, z)
      last, f = Loop(n, , q) <body = b (int64 i, bool go, int8[4] v)
                              => (bool on, int8[4] w, float[4] k) {
        on = Identity(go)
        d = DequantizeLinear(v, s, z)
        k = Sin(d)
        w = If(c) <
          then_branch = t1 () => (int8[4] e) { e = QuantizeLinear(k, s, z) },
          else_branch = t2 () => (int8[4] g) { g = Identity(v) }>
      }>
      y = DequantizeLinear(last, s, z)
    }"""
    inputs = {"x": X[0] / 8, "s": np.float32(0.03), "n": np.array(3), "c": np.array(condition)}
    judge(model, ["y", "f"], ["x", "s"], inputs)


def test_a_cast_to_a_float_of_few_bits_is_no_more_than_a_cast() -> None:
    model = """(float[2,4] x) => (float[2,4] y) {
      h = Mul(x, x) q = Cast<to = 17>(h) k = Constant<value_ints = [4, 2]>()
      r = Reshape(q, k) l = Constant<value_ints = [2, 4]>() t = Reshape(r, l) y = Cast<to = 1>(t)
    }"""
    got = compile(vjp(parse(model), "y", "x"))(x=X / 100, y_grad=np.ones((2, 4), np.float32))
    np.testing.assert_array_equal(got["x_grad"], 2 * (X / 100))


def test_all_that_rounds_is_named_at_once() -> None:
    model = """(float[4] x) => (float[4] y) {
      s = Constant<value = float {0.5}>() z = Constant<value = int8 {3}>()
      [a] q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
      [b] e = QuantizeLinear(d, s, z) [c] f = DequantizeLinear(e, s, z)
      [g] u, v, w = DynamicQuantizeLinear(f) y = DequantizeLinear(u, v, w)
    }"""
    with pytest.raises(NoGradientError) as caught:
        vjp(parse(model), "y", "x")
    assert str(caught.value) == (
        "The gradient meets operators that round, so that their slope is zero almost everywhere:\n"
        "  ai.onnx@21::DynamicQuantizeLinear: node 'g'\n"
        "  ai.onnx@21::QuantizeLinear: nodes 'a', 'b'\n"
        'Say quantized="straight-through" (--quantized straight-through) to differentiate them as '
        "if they did not round, as quantisation-aware training does."
    )


def test_rounding_off_the_way_needs_no_option() -> None:
    model = """(float[4] x) => (float[4] y, int8[4] q) {
      s = Constant<value = float {0.5}>() y = Sin(x) q = QuantizeLinear<output_dtype = 3>(x, s)
    }"""
    assert vjp(parse(model), "y", "x")


PAIRS_OF_INT8 = """(float[2,3] x, float[4,2] a) => (float[4,3] y) {
  s = Constant<value = float {0.5}>() z = Constant<value = int8 {3}>()
  q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = MatMul(a, d)
}"""


def test_an_old_model_stays_what_the_runtime_takes_at_its_defaults() -> None:
    """Newer than opset 20 it would not: there it spoils pairs before a `Transpose`."""
    import onnxruntime

    result = vjp(parse(PAIRS_OF_INT8, 13), "y", ["x", "a"], quantized=OPTION)
    assert result.opset_imports[""] == 20
    assert any(node.op_type == "Transpose" for node in result.graph)
    onnxruntime.InferenceSession(ir.to_proto(result).SerializeToString())
    newer = vjp(parse(PAIRS_OF_INT8, 13), "y", ["x", "a"], quantized=OPTION, opset=21)
    assert newer.opset_imports[""] == 21


def test_pairs_of_a_new_model_run_before_a_transpose() -> None:
    cotangent = np.ones((4, 3), np.float32)
    x, a = np.float32([[1, 2, 3], [-4, 5, 90]]), np.ones((4, 2), np.float32)
    got = gradients(PAIRS_OF_INT8, {"x": x, "a": a}, cotangent, opset=21)
    np.testing.assert_array_equal(got["x"], [[4, 4, 4], [4, 4, 0]])
    np.testing.assert_array_equal(got["a"], np.tile([6, 63], (4, 1)))

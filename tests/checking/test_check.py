"""The checker is fed right and wrong gradients, written by hand."""

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from whileback.checking.check import check
from whileback.gradient import vjp

HEADER = '<ir_version: 10, opset_import: ["" : 21]> g '

MODEL = """(TYPE[B,4] x, TYPE[4,3] w) => (TYPE[B,3] y) {
  a = MatMul(x, w)
  y = Tanh(a)
}"""

VJP = """(TYPE[B,4] x, TYPE[4,3] w, TYPE[B,3] y_grad)
    => (TYPE[B,3] y, TYPE[B,4] x_grad, TYPE[4,3] w_grad) {
  a = MatMul(x, w)
  y = Tanh(a)
  one = CastLike(ONE, x)
  yy = Mul(y, y)
  slope = Sub(one, yy)
  da = Mul(y_grad, slope)
  wt = Transpose(w)
  xt = Transpose(x)
  x_right = MatMul(da, wt)
  w_right = MatMul(xt, da)
  x_grad = Identity(x_right)
  w_grad = Identity(w_right)
}"""


def build(text, dtype="float"):
    text = text.replace("CastLike(ONE, x)", "CastLike(one_f, x)")
    text = text.replace("  one = ", "  one_f = Constant<value = float {1}>()\n  one = ")
    return ir.from_onnx_text(HEADER + text.replace("TYPE", dtype))


def wrong(new, old="w_grad = Identity(w_right)"):
    assert VJP.count(old) == 1
    return VJP.replace(old, new)


def verdicts(report):
    return {finding.name: finding.verdict for finding in report.findings}


def run(text, dtype="float", **options):
    return check(
        build(MODEL, dtype), ["y"], ["x", "w"], gradient_model=build(text, dtype), **options
    )


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
@pytest.mark.parametrize("seed", range(5))
def test_a_right_gradient_passes(dtype, seed):
    report = run(VJP, dtype, seed=seed)
    assert report.ok, str(report)
    assert verdicts(report) == {"x": "ok", "w": "ok"}


@pytest.mark.parametrize("elements", [0, 64])
@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
@pytest.mark.parametrize(
    "text",
    [
        wrong(
            "c = Constant<value = float {1.001}>()\n k = CastLike(c, x)\n w_grad = Mul(w_right, k)"
        ),
        wrong(
            "c = Constant<value = float {0.5}>()\n k = CastLike(c, x)\n w_grad = Mul(w_right, k)"
        ),
        wrong("w_grad = Sub(w_right, w_right)"),
        wrong("w_grad = Neg(w_right)"),
        wrong("w_grad = MatMul(xt, y_grad)"),
        wrong(
            """i = Constant<value = int64[1,2] {2, 1}>()
            old = GatherND(w_right, i)
            c = Constant<value = float {1.01}>()
            k = CastLike(c, x)
            new = Mul(old, k)
            w_grad = ScatterND(w_right, i, new)"""
        ),
        wrong(
            """a2 = Constant<value = int64[2] {3, 4}>()
            a3 = Constant<value = int64[2] {4, 3}>()
            t = Transpose(w_right)
            w_grad = Reshape(w_right, a3)""".replace("Reshape(w_right", "Reshape(t")
        ),
    ],
)
def test_wrong_gradients_fail(text, dtype, elements):
    report = run(text, dtype, elements=elements)
    assert not report.ok
    assert verdicts(report) == {"x": "ok", "w": "WRONG"}


def test_the_worst_element_is_named():
    text = wrong(
        """i = Constant<value = int64[1,2] {2, 1}>()
        old = GatherND(w_right, i)
        new = Add(old, old)
        w_grad = ScatterND(w_right, i, new)"""
    )
    worst = run(text).findings[1].worst
    assert worst.where == "[2,1]"
    assert worst.got == pytest.approx(2 * worst.want, rel=1e-4)


def test_a_wrong_shape_is_named():
    report = run(wrong("w_grad = Transpose(w_right)"))
    assert verdicts(report) == {"x": "ok", "w": "WRONG shape, not [4,3]"}
    assert not report.ok


def test_an_operand_used_twice_and_halved():
    model = ir.from_onnx_text(HEADER + "(float[3] x) => (float[3] y) { y = Mul(x, x) }")
    vjp = HEADER + "(float[3] x, float[3] y_grad) => (float[3] x_grad) { h = Mul(x, y_grad) BODY }"
    half = ir.from_onnx_text(vjp.replace("BODY", "x_grad = Identity(h)"))
    full = ir.from_onnx_text(vjp.replace("BODY", "x_grad = Add(h, h)"))
    assert not check(model, ["y"], ["x"], gradient_model=half).ok
    assert check(model, ["y"], ["x"], gradient_model=full).ok


def test_without_a_cotangent_every_element_counts_once():
    model = ir.from_onnx_text(HEADER + "(float[3] x) => (float y) { y = ReduceSum<keepdims=0>(x) }")
    text = HEADER + "(float[3] x) => (float[3] x_grad) { z = Sub(x, x) x_grad = FUNCTION(z) }"
    right = ir.from_onnx_text(text.replace("FUNCTION", "Exp"))
    wrong_ = ir.from_onnx_text(text.replace("FUNCTION", "Sin"))
    assert check(model, ["y"], ["x"], gradient_model=right).ok
    report = check(model, ["y"], ["x"], gradient_model=wrong_)
    assert verdicts(report) == {"x": "WRONG"}


RELU = HEADER + "(float[4] x) => (float[4] y) { y = Relu(x) }"
RELU_VJP = """(float[4] x, float[4] y_grad) => (float[4] x_grad) {
  zero = Sub(x, x)
  up = Greater(x, zero)
  one = Exp(zero)
  x_grad = Where(up, y_grad, FALSE)
}"""


def relu(at, otherwise="zero"):
    gradient = ir.from_onnx_text(HEADER + RELU_VJP.replace("FALSE", otherwise))
    return check(
        ir.from_onnx_text(RELU), ["y"], ["x"], {"x": np.float32(at)}, gradient_model=gradient
    )


def test_kinks_are_not_errors_but_do_not_hide_any():
    assert verdicts(relu([-1, 1, 2, -2])) == {"x": "ok"}
    assert verdicts(relu([-1, 0, 2, -2])) == {"x": "kink"}
    assert relu([-1, 0, 2, -2]).ok
    assert verdicts(relu([-1, 0, 2, -2], "one")) == {"x": "WRONG"}
    assert verdicts(relu([0, 0, 0, 0], "x")) == {"x": "kink"}


def test_values_close_to_a_kink_are_judged():
    assert verdicts(relu([1e-3, -1e-3, 2e-4, -2])) == {"x": "ok"}
    assert verdicts(relu([1e-3, -1e-3, 2e-4, -2], "one")) == {"x": "WRONG"}


def test_a_gradient_that_is_not_a_number_is_wrong_even_at_a_kink():
    nan = "bad"
    gradient = HEADER + RELU_VJP.replace("one = Exp(zero)", "bad = Div(zero, zero)")
    gradient = ir.from_onnx_text(gradient.replace("FALSE", nan))
    x = np.float32([-1, 0, 2, -2])
    report = check(ir.from_onnx_text(RELU), ["y"], ["x"], {"x": x}, gradient_model=gradient)
    assert verdicts(report) == {"x": "WRONG"}
    assert report.findings[0].worst.where == "[0]"


def test_a_zero_gradient_is_called_so():
    assert verdicts(relu([-1, -2, -3, -4])) == {"x": "zero"}
    assert verdicts(relu([-1, -2, -3, -4], "one")) == {"x": "WRONG"}


def test_rounding_of_large_sums_is_no_error():
    model = ir.from_onnx_text(
        HEADER
        + """(float[10000,4] x, float[4] w) => (float[10000] y) {
          a = MatMul(x, w)
          y = Exp(a)
        }"""
    )
    vjp = ir.from_onnx_text(
        HEADER
        + """(float[10000,4] x, float[4] w, float[10000] y_grad)
            => (float[10000,4] x_grad, float[4] w_grad) {
          a = MatMul(x, w)
          y = Exp(a)
          da = Mul(y, y_grad)
          w_grad = MatMul(da, x)
          axis = Constant<value = int64[1] {1}>()
          column = Unsqueeze(da, axis)
          x_grad = Mul(column, w)
        }"""
    )
    for seed in range(3):
        report = check(model, ["y"], ["x", "w"], gradient_model=vjp, seed=seed)
        assert verdicts(report) == {"x": "ok", "w": "ok"}, str(report)


INTERMEDIATE = """(float[2] x) => (float[2] y) <float[2] w = {2, 3}> {
  h = Mul(x, w)
  s = Sin(h)
  y = Add(s, h)
}"""
INTERMEDIATE_VJP = """(float[2] x, SEEDS, float[2] w) => (float[2] y, GRADIENTS)
    <float[2] w = {2, 3}> {
  h = Mul(x, w)
  s = Sin(h)
  y = Add(s, h)
  c = Cos(h)
  a = Mul(c, y_grad)
  b = Add(a, y_grad)
  dh = LAST
  dx = Mul(dh, w)
  dw = Mul(dh, x)
}"""


@pytest.mark.parametrize(
    ("of", "wrt", "last"),
    [
        (["y"], ["x", "w"], "Identity(b)"),
        (["y", "h"], ["x", "w"], "Add(b, h_grad)"),
        (["h", "y"], ["w"], "Add(b, h_grad)"),
        (["y"], ["h", "w"], "Identity(b)"),
        (["y", "h"], ["h", "x"], "Add(b, h_grad)"),
    ],
)
def test_initializers_and_intermediate_values_on_both_sides(of, wrt, last):
    text = INTERMEDIATE_VJP.replace("LAST", last)
    text = text.replace("SEEDS", ", ".join(f"float[2] {name}_grad" for name in of))
    text = text.replace("GRADIENTS", ", ".join(f"float[2] d{name}" for name in wrt))
    model = ir.from_onnx_text(HEADER + INTERMEDIATE)
    right = ir.from_onnx_text(HEADER + text)
    wrong_ = ir.from_onnx_text(HEADER + text.replace("Cos(h)", "Exp(h)"))
    assert verdicts(check(model, of, wrt, gradient_model=right)) == dict.fromkeys(wrt, "ok")
    assert verdicts(check(model, of, wrt, gradient_model=wrong_)) == dict.fromkeys(wrt, "WRONG")


def test_bfloat16_is_judged_by_its_twin():
    model = ir.from_onnx_text(HEADER + "(bfloat16[3] x) => (bfloat16[3] y) { y = Identity(x) }")
    text = HEADER + "(bfloat16[3] x, bfloat16[3] y_grad) => (bfloat16[3] x_grad) { BODY }"
    right = ir.from_onnx_text(text.replace("BODY", "x_grad = Identity(y_grad)"))
    wrong_ = ir.from_onnx_text(text.replace("BODY", "x_grad = Identity(x)"))
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    assert verdicts(check(model, ["y"], ["x"], {"x": x}, gradient_model=right)) == {"x": "ok"}
    assert verdicts(check(model, ["y"], ["x"], {"x": x}, gradient_model=wrong_)) == {"x": "WRONG"}


def test_the_report_is_a_table():
    report = relu([1, -1, 2, 3])
    lines = str(report).splitlines()
    assert lines[0].split() == [
        "value", "type", "verdict", "worst", "at", "gradient", "expected", "error", "allowed",
    ]  # fmt: skip
    assert lines[1].split()[:3] == ["x", "FLOAT[4]", "ok"]
    assert len(lines) == 2


def test_a_float_that_says_a_size_is_not_moved():
    model = ir.from_onnx_text(
        HEADER
        + """(int64[3] i, float n, float[2] values) => (float[3,M] y) {
          y = OneHot(i, n, values)
        }"""
    )
    gradient_model = vjp(model, "y", "values")
    inputs = {"i": np.int64([0, 1, 4]), "n": np.float32(5)}
    for seed in range(4):
        report = check(model, ["y"], ["values"], inputs, gradient_model=gradient_model, seed=seed)
        assert verdicts(report) == {"values": "ok"}


# In FLOAT the product is 1.5 and `p` is zero; in float64 it is a little more, and `p` positive.
CLOSE_TO_A_KINK = """(float[1] x, float[2] values, int64[2] i, float n) => (float[1] y) {
  c = Constant<value = float[1] {0.6}>()
  a = Mul(x, c)
  b = Constant<value = float[1] {1.5}>()
  p = Sub(a, b)
  r = Relu(p)
  h = OneHot(i, n, values)
  t = ReduceSum<keepdims = 0>(h)
  y = Mul(r, t)
}"""


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sizes", ["", "a float says one"])
def test_a_kink_that_rounding_steps_over(seed, sizes):
    text = CLOSE_TO_A_KINK if sizes else CLOSE_TO_A_KINK.replace("float n)", "int64 n)")
    model = ir.from_onnx_text(HEADER + text)
    inputs = {
        "x": np.float32([2.5]),
        "values": np.float32([0.25, 1.0]),
        "i": np.int64([0, 2]),
        "n": np.array(3, np.float32 if sizes else np.int64),
    }
    assert np.float32(2.5) * np.float32(0.6) == np.float32(1.5)
    assert np.float64(np.float32(0.6)) * 2.5 > 1.5
    gradient_model = vjp(model, "y", "x")
    report = check(model, ["y"], ["x"], inputs, gradient_model=gradient_model, seed=seed)
    assert report.ok, str(report)

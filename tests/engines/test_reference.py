"""The reference engine against ONNX Runtime, and against NumPy where ONNX Runtime gives up."""

import numpy as np
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.errors import EngineError


def build(signature, body, opset=21):
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    )


LOOP = build(
    "(int64 n, bool go, float[2,2] x, float[2,2] w) => (float[2,2] y, float[T,2,2] s, int64[T] t)",
    """y, s, t = Loop(n, go, x) <body = b (int64 i, bool c, float[2,2] v)
        => (bool d, float[2,2] u, float[2,2] r, int64 j) {
      u = MatMul(v, w)
      r = Add(u, x)
      j = Identity(i)
      d = Identity(c)
    }>""",
)


def both(model, **feeds):
    want = compile(model, threads=1)(feeds)
    got = compile(model, "reference")(feeds)
    assert list(got) == list(want)
    for name in want:
        assert got[name].shape == want[name].shape
        assert got[name].dtype == want[name].dtype
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5)
    return got


@pytest.mark.parametrize(("n", "go"), [(3, True), (0, True), (3, False), (1, True)])
def test_loop_with_matrices_as_scan_outputs(n, go):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 2, 2)).astype(np.float32)
    got = both(LOOP, n=n, go=go, x=x, w=w)
    assert got["s"].shape == (n if go else 0, 2, 2)


def test_loop_without_limit_or_condition():
    model = build(
        "(float w) => (float y, float[T] s)",
        """y, s = Loop("", "", w) <body = b (int64 i, bool c, float v)
            => (bool d, float u, float r) {
          half = Constant<value = float {0.5}>()
          u = Mul(v, half)
          r = Identity(u)
          low = Constant<value = float {0.1}>()
          d = Greater(u, low)
        }>""",
    )
    got = both(model, w=1.0)
    np.testing.assert_allclose(got["s"], [0.5, 0.25, 0.125, 0.0625])


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize(("read", "write"), [(1, -1), (-1, 0), (0, 1)])
def test_scan_axes_and_directions(directions, read, write):
    model = build(
        "(float[A] s, float[M,N] x) => (float[A] f, float[P,Q] y)",
        f"""f, y = Scan<num_scan_inputs = 1, scan_input_axes = [{read}],
            scan_output_axes = [{write}], scan_input_directions = [{directions[0]}],
            scan_output_directions = [{directions[1]}], body = b (float[A] a, float[A] r)
            => (float[A] c, float[A] d) {{
          c = Add(a, r)
          d = Identity(c)
        }}>(s, x)""",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    size = np.moveaxis(x, read, 0).shape[1]
    both(model, s=np.linspace(0, 1, size).astype(np.float32), x=x)


def test_scan_over_no_rows():
    model = build(
        "(float[2] s, float[T,2] x) => (float[2] f, float[2,P] y)",
        """f, y = Scan<num_scan_inputs = 1, scan_output_axes = [1], body = b
            (float[2] a, float[2] r) => (float[2] c, float[2] d) {
          c = Add(a, r)
          d = Identity(c)
        }>(s, x)""",
    )
    got = compile(model, "reference")(s=[1, 2], x=np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(got["f"], [1, 2])
    assert got["y"].shape == (2, 0)


@pytest.mark.parametrize("flag", [True, False])
def test_if_in_loop_with_names_that_hide_outer_ones(flag):
    model = build(
        "(float q, float w, bool flag) => (float y)",
        """x = Exp(q)
        n = Constant<value = int64 {3}>()
        r = Loop(n, "", x) <body = b (int64 i, bool c, float x) => (bool d, float u) {
          u = If(flag) <then_branch = t () => (float a) { a = Mul(x, w) },
                        else_branch = e () => (float a) { a = Add(x, q) }>
          d = Identity(c)
        }>
        y = Add(r, x)""",
    )
    got = both(model, q=0.3, w=0.5, flag=flag)
    x = np.exp(0.3)
    assert got["y"] == pytest.approx(x * 0.125 + x if flag else x + 0.9 + x, rel=1e-6)


def test_everything_stays_in_float64():
    model = build("(double[N] x) => (double[N] y)", "a = Exp(x)\n y = Softmax(a)")
    x = np.array([0.1, 0.2, 0.7])
    e = np.exp(np.exp(x))
    np.testing.assert_allclose(compile(model, "reference")(x=x)["y"], e / e.sum(), rtol=1e-14)


def test_errors_are_chained():
    with pytest.raises(EngineError, match=r"onnx.reference refuses model 'g': .*Foo"):
        compile(build("(float x) => (float y)", "y = Foo(x)"), "reference")
    f = compile(build("(float[N] x, float[M] w) => (float[K] y)", "y = Add(x, w)"), "reference")
    with pytest.raises(EngineError, match=r"onnx.reference failed to run model 'g': ") as error:
        f(x=[1, 2], w=[1, 2, 3])
    assert error.value.__cause__ is not None


@pytest.mark.parametrize("mode", ["constant", "edge"])
@pytest.mark.parametrize(
    ("pads", "axes"),
    [("1, -1, 0, 2", "0, 1"), ("-1, 0, -1, -2", "0, 1"), ("-2, 1", "-1"), ("0, -3, 1, 0", "1, 0")],
)
def test_pads_that_cut(pads, axes, mode):
    count = axes.count(",") + 1
    model = build(
        "(float[4,5] x) => (float[A,B] y) "
        f"<int64[{2 * count}] pads = {{{pads}}}, int64[{count}] axes = {{{axes}}}>",
        f'y = Pad<mode = "{mode}">(x, pads, , axes)',
    )
    both(model, x=np.arange(20, dtype=np.float32).reshape(4, 5))


def test_pads_of_an_old_opset():
    model = build("(float[3] x) => (float[A] y)", "y = Pad<pads = [-1, 2], value = 7.0>(x)", 9)
    assert both(model, x=np.float32([1, 2, 3]))["y"].tolist() == [2, 3, 7, 7]


def test_optionals_hold_what_they_are_made_of():
    model = build(
        "(float[2] x) => (float[2] y, float[2] z, bool b)",
        """a = Optional(x)
        y = OptionalGetElement(a)
        b = OptionalHasElement(a)
        s = SequenceConstruct(x, x)
        c = Optional(s)
        t = OptionalGetElement(c)
        i = Constant<value = int64 {1}>()
        z = SequenceAt(t, i)""",
    )
    both(model, x=np.float32([1, 2]))


def test_sequences_without_elements():
    model = build(
        "(float[2] x, int64 n) => (seq(float[2]) s, seq(float[2]) t, seq(float[2]) u)",
        """r = SequenceEmpty()
        z = Constant<value = int64 {0}>()
        s = Loop(n, , r) <body = b (int64 i, bool c, seq(float[2]) p) => (bool d, seq(float[2]) q) {
            d = Identity(c)
            q = SequenceInsert(p, x, z)
        }>
        t = SequenceMap(s) <body = m (float[2] a) => (float[2] e) { e = Mul(a, x) }>
        u = SequenceMap(s, x, t) <body = k (float[2] a, float[2] e, float[2] g) => (float[2] h) {
            f = Add(a, e)
            h = Add(f, g)
        }>""",
    )
    for n in (0, 1, 3):
        x = np.float32([1, 2])
        s, t, u = compile(model, "reference")(x=x, n=n).values()
        for sequence, element in ((s, x), (t, x * x), (u, x + x + x * x)):
            assert len(sequence) == n and all(np.array_equal(e, element) for e in sequence)


@pytest.mark.parametrize("position", [-2, -1, 0, 1, 2])
def test_where_elements_are_inserted(position):
    model = build(
        "(float x, int64 i) => (float[3] y)",
        """m = Neg(x)
        z = Exp(x)
        s = SequenceConstruct(x, m)
        t = SequenceInsert(s, z, i)
        y = ConcatFromSequence<axis = 0, new_axis = 1>(t)""",
    )
    both(model, x=np.float32(0.5), i=np.int64(position))


def test_adam_leaves_the_types_of_several_tensors():
    signature = ", ".join(f"double {kind}{i}" for kind in "XGVH" for i in range(2))
    text = (
        '<ir_version: 10, opset_import: ["ai.onnx.preview.training" : 1]> g '
        f"(float R, int64 T, {signature}) => (double Y0, double Y1) "
        "{ Y0, Y1 = ai.onnx.preview.training.Adam (R, T, X0, X1, G0, G1, V0, V1, H0, H1) }"
    )
    feeds = {f"{kind}{i}": 0.5 for kind in "XGVH" for i in range(2)}
    got = compile(ir.from_onnx_text(text), "reference")(feeds, R=0.0, T=1)
    assert got["Y0"].dtype == got["Y1"].dtype == np.float64


def test_one_hot_of_floats():
    model = build(
        "(float[4] i, float n, float[2] values) => (float[4,N] y)", "y = OneHot(i, n, values)"
    )
    both(model, i=np.float32([0, 1.7, 3, -1.2]), n=np.float32(4.6), values=np.float32([2, 3]))


@pytest.mark.parametrize(("axis", "rows"), [(0, 2), (1, 2), (-1, 1)])
def test_gather_elements(axis, rows):
    """Also along more than 32 elements, and of a part of the other axis."""
    model = build("(float[2,40] x, int64[r,3] i) => (float[r,3] y)", "y = GatherElements(x, i)")
    model.graph[0].attributes["axis"] = ir.AttrInt64("axis", axis)
    x = np.random.default_rng(0).normal(size=(2, 40)).astype(np.float32)
    both(model, x=x, i=np.array([[0, 1, -1], [1, -2, 0]])[:rows])


def test_graphs_of_flex_attention_read_outer_values():
    text = (
        '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview" : 1]> g '
        "(float[1,1,2,3] x, float[2] c) => (float[1,1,2,3] y) { t = Neg(c) "
        "y = ai.onnx.preview.FlexAttention (x, x, x) <prob_mod = f (float[1,1,2,2] p) => "
        "(float[1,1,2,2] q) <float two = {2}> { a = Mul(p, t) q = Mul(a, two) }> }"
    )
    x = np.random.default_rng(0).normal(size=(1, 1, 2, 3)).astype(np.float32)
    c = np.array([0.5, 2], np.float32)
    got = compile(ir.from_onnx_text(text), "reference")(x=x, c=c)["y"]
    p = np.exp(x[0, 0] @ x[0, 0].T / np.sqrt(3))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got[0, 0], p * -2 * c @ x[0, 0], rtol=1e-5)

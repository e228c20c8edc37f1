import numpy as np
import onnx_ir as ir
import pytest

from whileback.checking.point import Point
from whileback.errors import ArgumentError, UnsupportedError

HEADER = '<ir_version: 10, opset_import: ["" : 21]> g '


def point(text, of, wrt, inputs=None, **options):
    model = ir.from_onnx_text(HEADER + text)
    return Point(model, of, wrt, inputs or {}, np.random.default_rng(0), **options)


PRODUCT = "(float[3] x, float[3] w) => (float[3] y) { h = Mul(x, w) y = Exp(h) }"


def test_cotangents_are_exact_in_every_type_and_not_uniform():
    at = point("(float[99] x) => (float[99] y) { y = Neg(x) }", ["y"], ["x"])
    cotangent = at.cotangents["y"]
    assert np.array_equal(cotangent, cotangent.astype(ir.DataType.BFLOAT16.numpy()))
    assert len(np.unique(np.abs(cotangent))) > 20
    assert np.all(cotangent != 0) and np.max(np.abs(cotangent)) < 2


def test_slopes_of_each_element():
    at = point(PRODUCT, ["y", "h"], ["x", "h"])
    x, w = (at.feeds[name].astype(np.float64) for name in "xw")
    dh = at.cotangents["y"] * np.exp(x * w) + at.cotangents["h"]
    for name, want in (("h", dh), ("x", dh * w)):
        slopes = at.slopes(name, elements=3, directions=1)
        assert [slope.where for slope in slopes] == ["[0]", "[1]", "[2]"]
        got = [slope.derivative.value for slope in slopes]
        np.testing.assert_allclose(got, want, rtol=1e-8)


def test_slopes_along_directions():
    at = point(PRODUCT, ["y"], ["w"])
    x, w = (at.feeds[name].astype(np.float64) for name in "xw")
    gradient = at.cotangents["y"] * np.exp(x * w) * x
    slopes = at.slopes("w", elements=2, directions=4)
    assert len(slopes) == 4
    for slope in slopes:
        assert slope.derivative.value == pytest.approx(gradient @ slope.direction, rel=1e-8)


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_steps_fit_the_size_of_the_value(size):
    text = f"(float[2] x) => (float[2] y) {{ c = Constant<value = float {{{1 / size}}}>() "
    text += "s = Mul(x, c) y = Sin(s) }"
    x = np.float32([0.3 * size, -0.7 * size])
    at = point(text, ["y"], ["x"], {"x": x})
    scale = np.float64(np.float32(1 / size))
    want = at.cotangents["y"] * np.cos(x.astype(np.float64) * scale) * scale
    got = [slope.derivative.value for slope in at.slopes("x", 2, 1)]
    np.testing.assert_allclose(got, want, rtol=1e-8)


def test_uniform_cotangents():
    assert point(PRODUCT, ["y"], ["x"], uniform=True).cotangents["y"].tolist() == [1, 1, 1]


def test_unknown_values_are_refused():
    with pytest.raises(ArgumentError) as error:
        point(PRODUCT, ["y"], ["xx"])
    assert str(error.value) == "The model has no value 'xx'; did you mean 'x'?"
    with pytest.raises(ArgumentError, match=r"Model 'g' has no input 'z'"):
        point(PRODUCT, ["y"], ["x"], {"z": 1})


def test_models_that_draw_random_numbers_are_refused():
    text = "(float[3] x) => (float[3] y) { [draw] r = RandomNormalLike(x) y = Mul(x, r) }"
    with pytest.raises(UnsupportedError) as error:
        point(text, ["y"], ["x"])
    assert str(error.value) == (
        "Model 'g' gives other values each time it runs, so there are no differences to take. "
        "It draws random numbers in: 'draw' (RandomNormalLike). Check a copy of the model that "
        "has constants there."
    )


def test_an_initializer_that_nothing_else_reads():
    text = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(x) }"
    slopes = point(text, ["y"], ["w"]).slopes("w", 2, 1)
    assert [slope.derivative.value for slope in slopes] == [0, 0]


@pytest.mark.parametrize(("output", "node"), [("N", "y = Identity(r)"), ("3", "y = Add(r, w)")])
def test_a_move_that_changes_a_shape_is_a_kink(output, node):
    """So it is where nothing fits any more."""
    text = (
        f"(float start, float end, float delta) => (float[{output}] y) <float[3] w = {{1, 2, 3}}> "
        f"{{ r = Range(start, end, delta) {node} }}"
    )
    feeds = {"start": np.float32(0), "end": np.float32(1.5), "delta": np.float32(0.5)}
    at = point(text, ["y"], ["end"], feeds)
    (slope,) = at.slopes("end", 1, 1)
    assert slope.derivative.kink


def test_eight_bits_stay_as_they_are_in_the_twin():
    """They hold codes, and have no gradient."""
    text = "(float[2] x, float8e4m3fn[2] q) => (float[2] y) { s = CastLike(q, x) y = Mul(s, x) }"
    eight = np.array([1.5, -2]).astype(ir.DataType.FLOAT8E4M3FN.numpy())
    at = point(text, ["y"], ["x"], {"q": eight})
    got = [slope.derivative.value for slope in at.slopes("x", 2, 1)]
    np.testing.assert_allclose(got, at.cotangents["y"] * [1.5, -2], rtol=1e-8)

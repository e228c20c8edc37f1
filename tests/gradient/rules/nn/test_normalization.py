import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import KINDS, judge, values
from tests.judge import assert_gradient

TYPES = ("float64", "float16")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [-1, -2, 0, 1, 2])
def test_layer_normalization(axis, kind):
    x = values(2, 3, 4)
    scale, bias = (values(*x.shape[axis:], seed=seed) for seed in (1, 2))
    judge(f"LayerNormalization<axis = {axis}>", kind, x=x, w=scale, b=bias)


@pytest.mark.parametrize("dtype", TYPES)
def test_layer_normalization_in_other_types(dtype):
    x, scale, bias = (values(*shape, dtype=dtype) for shape in ((2, 3), (3,), (3,)))
    judge("LayerNormalization", x=x, w=scale, b=bias)


@pytest.mark.parametrize("of", [["y"], ["y", "mean", "r"], ["mean"], ["r"]])
def test_outputs_of_layer_normalization(of):
    outputs = ["y", "mean", "r"] if of != ["y"] else ["y"]
    wrt = ["x", "w"] if "y" in of else ["x"]
    call = "LayerNormalization<epsilon = 0.1>"
    judge(call, "symbols", outputs=outputs, of=of, wrt=wrt, x=values(2, 3), w=values(3, seed=1))


def test_wide_statistics_of_narrow_data():
    """Sums of squares overflow 16 bits here."""
    model = "(float16[1,4] x, float16[4] w) => (float16[1,4] y) { y = LayerNormalization(x, w) }"
    x = np.array([[600, -300, 250, 100]], np.float16)
    inputs = {"x": x, "w": np.array([1, 2, -1, 0.5], np.float16)}
    assert np.abs(assert_gradient(model, ["y"], ["x", "w"], inputs)["w"]).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization(axis, kind):
    x = values(2, 3, 4)
    call = f"RMSNormalization<axis = {axis}, epsilon = 0.1>"
    judge(call, kind, opset=23, x=x, w=values(*x.shape[axis:], seed=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 2, 2)])
@pytest.mark.parametrize("call", ["InstanceNormalization", "GroupNormalization<num_groups = 2>"])
def test_group_normalization(call, shape, kind):
    judge(call, kind, x=values(*shape), w=values(4, seed=1), b=values(4, seed=2))


@pytest.mark.parametrize("call", ["InstanceNormalization", "GroupNormalization<num_groups = 1>"])
def test_group_normalization_of_narrow_data(call):
    x, w, b = (values(*shape, dtype="float16") for shape in ((1, 2, 4), (2,), (2,)))
    judge(call, x=x, w=w, b=b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [0, -1]])
def test_mean_variance_normalization(axes, kind):
    judge(f"MeanVarianceNormalization<axes = {axes}>", kind, x=values(2, 3, 2, 2))


def test_default_axes_of_mean_variance_normalization():
    """The checker of ONNX 1.23 refuses the operator without its attribute."""
    model = "(float[2,3,2,2] x) => (float[2,3,2,2] y) { y = MeanVarianceNormalization%s(x) }"
    x, dY = values(2, 3, 2, 2), values(2, 3, 2, 2, seed=1)
    named, default = (gradients(model % a, {"x": x}, dY)["x"] for a in ("<axes = [0,2,3]>", ""))
    np.testing.assert_array_equal(named, default)


def test_no_variance():
    model = """(float[2,3] x) => (float[2,3] y) {
      n = MeanVarianceNormalization<axes = [1]>(x) zeros = Sub(x, x) y = Add(n, zeros)
    }"""
    got = gradients(model, {"x": [[1, 1, 1], [1, 2, 4]]}, [[1, 2, 3], [1, 2, 3]])["x"]
    np.testing.assert_array_equal(got[0], 0)
    assert got[1].all()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch(kind):
    w, b = values(4, seed=1), values(4, seed=2)
    judge("InstanceNormalization", kind, x=values(0, 4, 2), w=w, b=b)
    judge("LRN<size = 3>", kind, x=values(0, 4, 2, 2))
    for of in ("y", "mean", "r"):
        outputs, wrt = ["y", "mean", "r"], ["x", "w"] if of == "y" else ["x"]
        judge("LayerNormalization", kind, outputs=outputs, of=[of], wrt=wrt, x=values(0, 4), w=w)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attributes", ["", "axis = 0", "p = 1", "p = 1, axis = 1"])
def test_lp_normalization(attributes, kind):
    judge(f"LpNormalization<{attributes}>", kind, x=values(2, 3))


@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_zeros(p):
    """Conformance case S7, for a normalization: no gradient comes from where the norm is 0."""
    model = f"(float[2,2] x) => (float[2,2] y) {{ y = LpNormalization<p = {p}>(x) }}"
    got = gradients(model, {"x": [[0, 0], [3, 4]]}, [[1, 2], [1, 2]])["x"]
    np.testing.assert_array_equal(got[0], 0)
    assert got[1].all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3])
def test_local_response_normalization(size, kind):
    judge(f"LRN<size = {size}, alpha = 0.5, beta = 0.6, bias = 2.0>", kind, x=values(1, 4, 2, 2))


@pytest.mark.parametrize("call", ["LayerNormalization", "InstanceNormalization"])
def test_no_rows_to_normalize(call):
    size = 8 if call == "LayerNormalization" else 4
    model = f"(float[N,4,8] x, float[{size}] w) => (float[N,4,8] y) {{ y = {call}(x, w, w) }}"
    x, w = np.zeros((0, 4, 8), np.float32), values(size)
    got = gradients(model, {"x": x, "w": w})
    assert got["x"].shape == (0, 4, 8)
    np.testing.assert_array_equal(got["w"], np.zeros(size))


def test_local_response_normalization_by_default():
    """With an alpha of 0.0001, little but the bias is left: the values are large."""
    judge("LRN<size = 3>", KINDS[0], x=100 * values(1, 4, 2, 2))

import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import KINDS, judge, values

POOLS = ("MaxPool", "AveragePool", "LpPool")
# Attributes, shape of the data.
WINDOWS = [
    ("kernel_shape = [3]", (2, 2, 7)),
    ("kernel_shape = [3], strides = [2], pads = [1, 1]", (1, 2, 7)),
    ("kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]", (1, 2, 6, 5)),
    ("kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1", (1, 2, 6, 5)),
    ("kernel_shape = [3], strides = [3], pads = [1, 1], ceil_mode = 1", (1, 1, 6)),
    ("kernel_shape = [3], dilations = [2], strides = [2], pads = [1, 2]", (1, 2, 9)),
    ("kernel_shape = [2, 2, 2], strides = [1, 2, 1]", (1, 1, 3, 4, 3)),
    ("kernel_shape = [2], strides = [2]", (2, 3, 6)),
    ("kernel_shape = [2, 3], strides = [2, 3]", (2, 2, 4, 6)),
    ("kernel_shape = [2, 1, 3], strides = [2, 1, 3]", (1, 2, 2, 2, 6)),
    ("kernel_shape = [2, 2], strides = [2, 2]", (1, 2, 4, 5)),
]
INCLUDING_PADS = [
    "strides = [2, 1], pads = [1, 0, 1, 1]",
    "strides = [2, 2], ceil_mode = 1",
    "strides = [2, 2], pads = [1, 0, 1, 0], ceil_mode = 1",
    'strides = [2, 3], auto_pad = "SAME_UPPER"',
]


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("operator", POOLS)
@pytest.mark.parametrize(("attributes", "x"), WINDOWS)
def test_pools(operator, attributes, x, kind):
    judge(f"{operator}<{attributes}>", kind, x=values(*x))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("operator", POOLS)
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(operator, auto_pad, kind):
    attributes = f'kernel_shape = [3, 4], strides = [2, 3], auto_pad = "{auto_pad}"'
    judge(f"{operator}<{attributes}>", kind, x=values(1, 1, 6, 7))


@pytest.mark.parametrize("operator", POOLS)
def test_pools_of_unknown_shape(operator):
    call = f"{operator}<kernel_shape = [3], strides = [2], pads = [1, 0]>"
    judge(call, "unknown", x=values(2, 2, 6))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("attributes", INCLUDING_PADS)
def test_averages_that_count_pads(attributes, kind):
    call = f"AveragePool<kernel_shape = [3, 2], count_include_pad = 1, {attributes}>"
    judge(call, kind, x=values(1, 1, 6, 5))


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
def test_a_window_that_would_start_in_the_padding_is_left_out(operator):
    """Three windows fit with `ceil_mode`, but the last would read nothing but padding."""
    call = f"{operator}<kernel_shape = [2], strides = [3], pads = [1, 1], ceil_mode = 1>"
    assert judge(call, "symbols", x=values(1, 1, 5))["x"].shape == (1, 1, 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [["y"], ["y", "i"]])
@pytest.mark.parametrize("storage_order", [0, 1])
def test_the_indices_of_max_pool(storage_order, outputs, kind):
    call = f"MaxPool<kernel_shape = [2, 2, 2], storage_order = {storage_order}>"
    judge(call, kind, outputs=outputs, x=values(2, 2, 2, 3, 4))


def test_first_of_equal_maxima():
    """Conformance case 23."""
    for operator in ("MaxPool<kernel_shape = [4]>", "GlobalMaxPool"):
        model = f"(float[1,1,4] x) => (float[1,1,N] y) {{ y = {operator}(x) }}"
        np.testing.assert_array_equal(
            gradients(model, {"x": [[[1, 2, 2, 2]]]})["x"], [[[0, 1, 0, 0]]]
        )
    tiles = """(float[1,1,2,4] x) => (float[1,1,1,2] y) {
      y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    }"""
    x = [[[[1, 2, 0, 0], [2, 2, 0, 0]]]]
    got = gradients(tiles, {"x": x}, [[[[3, 5]]]])["x"]
    np.testing.assert_array_equal(got, [[[[0, 3, 5, 0], [0, 0, 0, 0]]]])
    overlap = "(float[1,1,3] x) => (float[1,1,2] y) { y = MaxPool<kernel_shape = [2]>(x) }"
    got = gradients(overlap, {"x": [[[1, 3, 2]]]}, [[[2, 5]]])
    np.testing.assert_array_equal(got["x"], [[[0, 7, 0]]])


def test_averages_with_ceil_mode():
    """Conformance case S4."""
    model = """(float[1,1,4,4] x) => (float[1,1,2,2] y) {
      y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)
    }"""
    got = gradients(model, {"x": np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)})["x"]
    assert got.sum() == pytest.approx(4)
    np.testing.assert_allclose(got[0, 0, 2], [0.2778, 0.2778, 0.6944, 0.4167], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(call, kind):
    judge(call, kind, x=values(2, 3, 2, 2))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_norms(p, kind):
    judge(f"GlobalLpPool<p = {p}>", kind, x=values(2, 3, 2, 2))


@pytest.mark.parametrize("p", [1, 3])
def test_other_norms(p):
    judge(f"LpPool<kernel_shape = [3], strides = [2], p = {p}>", "symbols", x=values(1, 2, 6))


@pytest.mark.parametrize("call", ["LpPool<kernel_shape = [2]>", "GlobalLpPool"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_norms_of_zeros(call, p):
    call = call.replace(">", f", p = {p}>") if ">" in call else f"{call}<p = {p}>"
    model = f"(float[1,1,4] x) => (float[1,1,N] y) {{ y = {call}(x) }}"
    np.testing.assert_array_equal(gradients(model, {"x": np.zeros((1, 1, 4), np.float32)})["x"], 0)


def test_max_unpool():
    x, i = values(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]])
    model = """(float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,4,4] y) {
      y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)
    }"""
    seed = np.arange(16).reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(gradients(model, {"x": x, "i": i}, seed)["x"], i)


@pytest.mark.parametrize(
    "call",
    [
        "MaxPool<kernel_shape = [3]>",
        "MaxPool<kernel_shape = [3], strides = [3]>",
        "AveragePool<kernel_shape = [3]>",
    ],
)
def test_half_precision(call):
    judge(call, x=values(1, 2, 6, dtype="float16"))


@pytest.mark.parametrize(
    "call",
    [f"{pool}<kernel_shape = [2]>" for pool in POOLS]
    + ["MaxPool<kernel_shape = [2], strides = [2]>", "GlobalMaxPool", "GlobalAveragePool"],
)
def test_an_empty_batch(call):
    model = f"(float[N,4,8] x) => (float[N,4,H] y) {{ y = {call}(x) }}"
    assert gradients(model, {"x": np.zeros((0, 4, 8), np.float32)})["x"].shape == (0, 4, 8)

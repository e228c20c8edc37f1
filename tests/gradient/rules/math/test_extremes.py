import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, X, judge

CLIP = "(float[6] x, float low, float high) => (float[6] y) { y = Clip(x, low, high) }"
NUMBERS = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_the_largest_and_the_smallest(operator, kind):
    z, w = X[1], X[:, :1]
    judge(f"y = {operator}(h)", kind)
    arguments = {"z": z, "w": w}
    judge(
        f"k = Exp(z) y = {operator}(h, k, w)",
        kind,
        "float[3] z, float[2,1] w",
        wrt=["x", "z", "w"],
        **arguments,
    )


def test_those_that_tie_share():
    """Conformance case S3."""
    model = "(float[3] a, float[3] b) => (float[3] y) { y = Max(a, b) }"
    got = gradients(model, {"a": [1, 2, 3], "b": [1, 3, 2]}, [2, 3, 5])
    assert (got["a"].tolist(), got["b"].tolist()) == ([1, 0, 5], [1, 3, 0])
    model = "(float[2] a) => (float[2] y) { y = Max(a, a, a) }"
    assert gradients(model, {"a": [4, -1]}, [2, 3])["a"].tolist() == [2, 3]


def test_infinities_that_tie_share():
    model = "(float a, float b) => (float y) { y = Max(a, b) }"
    got = gradients(model, {"a": -np.inf, "b": -np.inf})
    assert (got["a"], got["b"]) == (0.5, 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_clip(kind):
    limits = {"low": np.float32(0.3), "high": np.float32(2.0)}
    judge("y = Clip(h, low, high)", kind, "float low, float high", wrt=["x", *limits], **limits)
    judge("y = Clip(h)", kind)


def test_clip_at_its_limits():
    """Conformance case 24."""
    got = gradients(CLIP, {"x": NUMBERS, "low": 1, "high": 4}, [1, 2, 3, 4, 5, 6])
    assert got["x"].tolist() == [0, 2, 3, 4, 5, 0]
    assert (got["low"], got["high"]) == (1, 6)


def test_clip_with_one_limit():
    """Conformance case 24, without the minimum."""
    model = '(float[6] x, float high) => (float[6] y) { y = Clip(x, "", high) }'
    got = gradients(model, {"x": NUMBERS, "high": 4})
    assert (got["x"].tolist(), got["high"]) == ([1, 1, 1, 1, 1, 0], 1)
    model = "(float[6] x, float low) => (float[6] y) { y = Clip(x, low) }"
    got = gradients(model, {"x": NUMBERS, "low": 4})
    assert (got["x"].tolist(), got["low"]) == ([0, 0, 0, 0, 1, 1], 4)


def test_clip_with_limits_the_wrong_way_round():
    """Conformance case 24, the minimum above the maximum: everything is the maximum."""
    got = gradients(CLIP, {"x": NUMBERS, "low": 4, "high": 1}, [1, 2, 3, 4, 5, 6])
    assert not got["x"].any()
    assert (got["low"], got["high"]) == (0, 21)


@pytest.mark.parametrize("opset", [9, 17])
def test_limits_as_attributes_give_the_same(opset):
    """Conformance case H3."""
    text = "(float[6] x) => (float[6] y) { y = Clip<min = 1.0, max = 4.0>(x) }"
    if opset > 9:
        text = "(float[6] x) => (float[6] y) <float a = {1}, float b = {4}> { y = Clip(x, a, b) }"
    got = gradients(text, {"x": NUMBERS}, [1, 2, 3, 4, 5, 6], opset=opset)
    assert got["x"].tolist() == [0, 2, 3, 4, 5, 0]

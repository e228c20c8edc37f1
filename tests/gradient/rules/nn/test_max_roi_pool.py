import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values

from whileback.errors import WhilebackWarning

# Image, then corners: inside, at halves, outside, larger than the image, upside down, one pixel.
ROIS = np.array(
    [
        [0, 0.7, 1.2, 3.3, 4.1],
        [1, 0.5, -0.5, 2.5, 3.5],
        [1, 6, 5, 9, 9],
        [0, -4, -5, 9, 12],
        [1, 3, 3, 1, 2],
        [0, 2, 2, 2, 2],
    ],
    np.float32,
)


@pytest.mark.parametrize("kind", ["known", "symbols"])
@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("bins", [(1, 1), (2, 3), (4, 2)])
def test_regions(bins, scale, kind):
    call = f"MaxRoiPool<pooled_shape = {list(bins)}, spatial_scale = {scale}>"
    judge(call, kind, wrt=["x"], x=values(2, 2, 5, 4), rois=ROIS)


@pytest.mark.parametrize("opset", [7, 20])
def test_other_opsets(opset):
    judge(
        "MaxRoiPool<pooled_shape = [2, 2]>", wrt=["x"], opset=opset, x=values(2, 1, 5, 4), rois=ROIS
    )


def test_half_precision():
    call = "MaxRoiPool<pooled_shape = [2, 2]>"
    judge(call, wrt=["x"], x=values(2, 1, 5, 4, dtype="float16"), rois=ROIS.astype(np.float16))


def slopes(x, rois, seed=1.0):
    model = """(float[N,1,H,W] x, float[R,5] r) => (float[R,1,2,1] y) {
      y = MaxRoiPool<pooled_shape = [2, 1]>(x, r)
    }"""
    with pytest.warns(WhilebackWarning, match="'r': its gradient is zero everywhere"):
        got = gradients(model, {"x": x.astype(np.float32), "r": rois}, seed)
    assert not got["r"].any()
    return got["x"]


def test_the_first_of_equal_maxima():
    got = slopes(np.zeros((1, 1, 4, 2)), [[0, 0, 0, 1, 3]], [[[[2], [3]]]])
    np.testing.assert_array_equal(got[0, 0], [[2, 0], [0, 0], [3, 0], [0, 0]])


def test_bins_outside_of_the_image_get_nothing():
    got = slopes(np.ones((1, 1, 2, 2)), [[0, 0, 0, 1, 3]], [[[[2], [3]]]])
    np.testing.assert_array_equal(got[0, 0], [[2, 0], [0, 0]])


def test_no_regions():
    got = slopes(np.ones((1, 1, 2, 2)), np.zeros((0, 5), np.float32))
    np.testing.assert_array_equal(got, np.zeros((1, 1, 2, 2)))

import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values

# Inside, in part outside, far larger, upside down, and smaller than a bin.
ROIS = [[0.6, 0.77, 4.2, 3.9], [-3, -2.1, 6.3, 8], [3.1, 3.3, 2.2, 2.4], [1.3, 1.15, 1.75, 1.9]]
IMAGES = np.array([0, 1, 1, 0])


def inputs(dtype="float32"):
    return {"x": values(2, 2, 5, 4, dtype=dtype), "rois": np.array(ROIS, dtype), "images": IMAGES}


@pytest.mark.parametrize("kind", ["known", "symbols"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode, ratio, coordinates, kind):
    call = (
        f'RoiAlign<mode = "{mode}", sampling_ratio = {ratio}, output_height = 2, output_width = 3, '
        f'spatial_scale = 0.75, coordinate_transformation_mode = "{coordinates}">'
    )
    judge(call, kind, **inputs())


@pytest.mark.parametrize("opset", [10, 16])
def test_defaults(opset):
    judge("RoiAlign", opset=opset, **inputs())


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types(dtype, mode):
    given = inputs(dtype)
    # A change of 16 bits would cross a pixel.
    given["rois"] = given["rois"][:1]
    given["images"] = given["images"][:1]
    call = f'RoiAlign<mode = "{mode}", output_height = 2, sampling_ratio = 1>'
    judge(call, elements=4, **given)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_no_regions(mode, ratio):
    model = f"""(float[2,2,5,4] x, float[R,4] rois, int64[R] images) => (float[R,2,2,2] y) {{
      y = RoiAlign<
        mode = "{mode}", sampling_ratio = {ratio}, output_height = 2, output_width = 2
      >(x, rois, images)
    }}"""
    rois, images = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    got = gradients(model, {"x": values(2, 2, 5, 4), "rois": rois, "images": images})
    np.testing.assert_array_equal(got["x"], np.zeros((2, 2, 5, 4)))
    assert got["rois"].shape == (0, 4)

"""Images resized, sampled and cut into regions agree with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile

COORDINATES = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def _resized(attributes: str, sizes: list[int]) -> None:
    text = f"""(float X, float roi, int64 sizes) => (float Y) {{
        Y = Resize<{attributes}>(X, roi, , sizes)
    }}"""
    roi = np.float32([0, 0, -0.1, 0.2, 1, 1, 0.7, 1.3])
    inputs = {"X": normal(1, 2, 5, 6), "roi": roi, "sizes": np.int64([1, 2, *sizes])}
    assert_agrees(text, inputs)


@pytest.mark.parametrize("sizes", [[7, 4], [1, 13]])
@pytest.mark.parametrize("coordinates", [*COORDINATES, "tf_crop_and_resize"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resizes(mode: str, coordinates: str, sizes: list[int]) -> None:
    _resized(f'mode = "{mode}", coordinate_transformation_mode = "{coordinates}"', sizes)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_takes_the_nearest(coordinates: str, rounding: str) -> None:
    attributes = f'nearest_mode = "{rounding}", coordinate_transformation_mode = "{coordinates}"'
    _resized(f'mode = "nearest", {attributes}', [7, 3])


@pytest.mark.parametrize("sizes", [[2, 3], [3, 9]])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_smooths(mode: str, sizes: list[int]) -> None:
    _resized(f'mode = "{mode}", antialias = 1', sizes)


def test_leaves_out_what_is_outside() -> None:
    _resized('mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5', [8, 9])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_keeps_the_aspect(policy: str) -> None:
    text = f"""(float X, int64 sizes) => (float Y) {{
        Y = Resize<mode = "linear", keep_aspect_ratio_policy = "{policy}", axes = [2, 3]>
            (X, , , sizes)
    }}"""
    assert_agrees(text, {"X": normal(1, 2, 5, 6), "sizes": np.int64([9, 7])})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_takes_scales_that_only_the_run_knows(mode: str) -> None:
    text = f"""(float X, float scales) => (float Y) {{
        Y = Resize<mode = "{mode}">(X, , scales)
    }}"""
    for scales in [1, 1, 1.7, 0.6], [1, 1, 0.55, 2.5]:
        assert_agrees(text, {"X": normal(1, 2, 5, 6), "scales": np.float32(scales)})


def _sampled(rank: int, attributes: str) -> None:
    sizes, places = (5, 6, 4)[:rank], (3, 4, 2)[:rank]
    grid = normal(2, *places, rank) * 0.9
    text = f"(float X, float G) => (float Y) {{ Y = GridSample<{attributes}>(X, G) }}"
    assert_agrees(text, {"X": normal(2, 3, *sizes), "G": grid})


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("rank", "mode"),
    [(2, "nearest"), (2, "linear"), (2, "cubic"), (3, "nearest"), (3, "linear")],
)
def test_samples(rank: int, mode: str, padding: str, aligned: int) -> None:
    _sampled(rank, f'mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}')


@pytest.mark.parametrize("sizes", [(3, 4), (1, 5), (2, 1, 3)])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("aligned", [0, 1])
def test_makes_grids(aligned: int, batch: int, sizes: tuple[int, ...]) -> None:
    text = f"""(float T, int64 sizes) => (float G) {{
        G = AffineGrid<align_corners = {aligned}>(T, sizes)
    }}"""
    rank = len(sizes)
    inputs = {"T": normal(batch, rank, rank + 1), "sizes": np.int64([batch, 1, *sizes])}
    assert_agrees(text, inputs)


@pytest.mark.parametrize("ratio", [0, 1, 3])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_aligns_regions(mode: str, coordinates: str, ratio: int) -> None:
    text = f"""(float X, float rois, int64 which) => (float Y) {{
        Y = RoiAlign<mode = "{mode}", coordinate_transformation_mode = "{coordinates}",
                     sampling_ratio = {ratio}, spatial_scale = 0.5, output_height = 2,
                     output_width = 3>(X, rois, which)
    }}"""
    rois = np.float32([[1, 2, 9, 11], [0, 0, 3, 1], [-4, 3, 30, 8], [5, 5, 5.5, 5.25]])
    assert_agrees(text, {"X": normal(2, 3, 7, 8), "rois": rois, "which": np.int64([0, 1, 1, 0])})


def test_pools_regions() -> None:
    text = """(float X, float rois) => (float Y) {
        Y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.5>(X, rois)
    }"""
    rois = np.float32([[0, 1, 2, 9, 11], [1, 0, 0, 3, 1], [1, 5, 5, 5.5, 5.25]])
    assert_agrees(text, {"X": normal(2, 3, 7, 8), "rois": rois})


def test_finds_no_region_in_an_empty_list() -> None:
    text = """(float[1, 2, 4, 4] X, float[N, 4] rois, int64[N] which) => (float[N, 2, 1, 1] Y) {
        Y = RoiAlign(X, rois, which)
    }"""
    inputs = {"X": normal(1, 2, 4, 4), "rois": np.zeros((0, 4), np.float32)}
    inputs["which"] = np.zeros(0, np.int64)
    assert compile(parse(text), engine="xla")(inputs)["Y"].shape == (0, 2, 1, 1)

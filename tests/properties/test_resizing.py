"""Resize in all its modes, by scales or sizes, of all axes or of some."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, ints, judge, numbers

COORDINATES = (
    "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_crop_and_resize"
).split()
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def attributes(draw, mode, coordinates):
    """Draw how to interpolate."""
    given = {"mode": f'"{mode}"', "coordinate_transformation_mode": f'"{coordinates}"'}
    if mode == "nearest":
        given["nearest_mode"] = f'"{draw(st.sampled_from(ROUNDINGS))}"'
    else:
        given["antialias"] = draw(st.integers(0, 1))
    if mode == "cubic":
        given["exclude_outside"] = draw(st.integers(0, 1))
        given["cubic_coeff_a"] = draw(st.sampled_from((-0.75, -0.5)))
    return given


def where_to(draw, x, axes, coordinates):
    """Draw the inputs that say what the axes become: a region at times, then scales or sizes."""
    given = {}
    sizes = [x.shape[axis] for axis in axes]
    images = [axis > 1 for axis in axes]
    targets = [draw(st.integers(1, 6)) if k else n for n, k in zip(sizes, images, strict=True)]
    if coordinates == "tf_crop_and_resize":
        ends = ([0.125 * k for k in images], [1 - 0.125 * k for k in images])
        given["roi"] = np.array([*ends[0], *ends[1]], np.float32)
        # ONNX Runtime 1.32 does not crop an axis whose size stays the same.
        places = zip(targets, sizes, images, strict=True)
        targets = [target + (k and target == size) for target, size, k in places]
    if draw(st.booleans()):
        given["scales"] = np.array(targets, np.float32) / np.array(sizes, np.float32)
    else:
        given["sizes"] = ints(targets)
    return given


@examples(6)
def test_resize(draw):
    mode = draw(st.sampled_from(("nearest", "linear", "cubic")))
    coordinates = draw(st.sampled_from(COORDINATES))
    spatial = 2 if mode == "cubic" else draw(st.integers(1, 2))
    dims = [draw(st.integers(2, 4)) for _ in range(spatial)]
    x = numbers(draw, (draw(st.integers(1, 2)), 1, *dims))
    how = attributes(draw, mode, coordinates)
    axes = list(range(x.ndim))
    if draw(st.booleans()):
        axes = how["axes"] = axes[2:]
    given = {"x": x} | where_to(draw, x, axes, coordinates)
    read = [name if name in given else "" for name in ("x", "roi", "scales", "sizes")]
    written = ", ".join(f"{name} = {value}" for name, value in how.items())
    call = f"Resize<{written}>({', '.join(read).rstrip(', ')})"
    judge(draw, call, opset=19, kinks=True, declared=WAYS[:2], **given)

"""Operators that read images between pixels and in regions, and grids that say where."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, ints, judge, numbers, whole

PADDINGS = st.sampled_from(("zeros", "border", "reflection"))
SIZE = st.integers(1, 3)


def points(draw, *dims):
    """Draw numbers between -1.6 and 1.6, which are no places of pixels or in their middle."""
    return np.random.default_rng(draw(st.integers(0, 9))).uniform(-1.6, 1.6, dims).astype("f4")


@examples(6)
def test_grid_sample(draw):
    mode, axes = draw(st.sampled_from((("linear", 2), ("linear", 3), ("cubic", 2), ("nearest", 2))))
    sizes = [draw(st.integers(1, 4)) for _ in range(axes)]
    aligned = draw(st.integers(0, 1))
    if aligned or mode == "cubic":
        sizes = [max(size, 2) for size in sizes]
    batch = draw(st.integers(0, 2))
    x = numbers(draw, (batch, draw(SIZE), *sizes))
    grid = points(draw, batch, *(draw(SIZE) for _ in sizes), axes)
    attributes = f'mode = "{mode}", padding_mode = "{draw(PADDINGS)}", align_corners = {aligned}'
    fixed = ["g"] if mode == "nearest" else []
    judge(draw, f"GridSample<{attributes}>(x, g)", declared=WAYS[:2], fixed=fixed, x=x, g=grid)


@examples(6)
def test_affine_grid(draw):
    axes, aligned = draw(st.integers(2, 3)), draw(st.integers(0, 1))
    batch = draw(st.integers(0, 2))
    size = [batch, draw(SIZE), *(draw(SIZE) + aligned for _ in range(axes))]
    theta = numbers(draw, (batch, axes, axes + 1))
    judge(draw, f"AffineGrid<align_corners = {aligned}>(t, s)", opset=20, t=theta, s=ints(size))


@examples(5)
def test_roi_align(draw):
    x = numbers(draw, (draw(st.integers(1, 2)), draw(SIZE), draw(SIZE) + 1, draw(SIZE) + 1))
    count = draw(st.integers(1, 3))
    corners = points(draw, count, 2) + 1
    sizes = 2 + points(draw, count, 2)
    images = whole(draw, (count,), 0, len(x) - 1)
    mode = draw(st.sampled_from(("avg", "max")))
    coordinates = draw(st.sampled_from(("half_pixel", "output_half_pixel")))
    call = (
        f'RoiAlign<mode = "{mode}", coordinate_transformation_mode = "{coordinates}", '
        f"output_height = {draw(SIZE)}, output_width = {draw(SIZE)}, "
        f"sampling_ratio = {draw(st.integers(0, 2))}, spatial_scale = 0.75>(x, r, i)"
    )
    regions = np.concatenate([corners, corners + sizes], axis=1)
    judge(draw, call, kinks=True, declared=WAYS[:2], x=x, r=regions, i=images)


@examples(4)
def test_max_roi_pool(draw):
    x = numbers(draw, (draw(st.integers(1, 2)), draw(SIZE), draw(SIZE) + 1, draw(SIZE) + 1))
    count = draw(st.integers(0, 3))
    images = whole(draw, (count, 1), 0, len(x) - 1)
    first, extent = (whole(draw, (count, 2), least, 3) for least in (-2, 0))
    call = f"MaxRoiPool<pooled_shape = {[draw(SIZE), draw(SIZE)]}, spatial_scale = 0.75>(x, r)"
    regions = np.concatenate([images, first, first + extent], axis=1).astype(np.float32)
    judge(draw, call, declared=WAYS[:2], fixed=["r"], x=x, r=regions)


@examples(5)
def test_deform_conv(draw):
    groups, movers = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    batch, channels, kernels = draw(SIZE), groups * movers, groups * draw(st.integers(1, 2))
    kernel, strides, dilations = ([draw(st.integers(1, 2)) for _ in "hw"] for _ in range(3))
    sizes = [draw(st.integers(1, 2)) for _ in "hw"]
    pads = [draw(st.integers(0, 1)) for _ in range(4)]
    places = zip(sizes, kernel, strides, dilations, pads[:2], pads[2:], strict=True)
    image = [max(1, s * (n - 1) + d * (k - 1) + 1 - b - e) for n, k, s, d, b, e in places]
    places = zip(image, kernel, strides, dilations, pads[:2], pads[2:], strict=True)
    sizes = [(size + b + e - d * (k - 1) - 1) // s + 1 for size, k, s, d, b, e in places]
    count = movers * int(np.prod(kernel))
    given = {
        "x": numbers(draw, (batch, channels, *image)),
        "w": numbers(draw, (kernels, channels // groups, *kernel), 1),
        "o": points(draw, batch, 2 * count, *sizes),
        "b": numbers(draw, (kernels,), 2),
        "m": numbers(draw, (batch, count, *sizes), 3),
    }
    given = dict(list(given.items())[: draw(st.integers(3, 5))])
    attributes = (
        f"group = {groups}, offset_group = {movers}, kernel_shape = {kernel}, pads = {pads}, "
        f"strides = {strides}, dilations = {dilations}"
    )
    call = f"DeformConv<{attributes}>({', '.join(given)})"
    judge(draw, call, declared=WAYS[:2], **given)


@examples(5)
def test_col2im(draw):
    axes = draw(st.integers(1, 3))
    block, strides, dilations = ([draw(st.integers(1, 2)) for _ in range(axes)] for _ in range(3))
    pads = [draw(st.integers(0, 1)) for _ in range(2 * axes)]
    steps = [draw(st.integers(1, 2)) for _ in range(axes)]
    places = zip(steps, block, strides, dilations, pads[:axes], pads[axes:], strict=True)
    image = [max(1, s * (n - 1) + d * (k - 1) + 1 - b - e) for n, k, s, d, b, e in places]
    places = zip(image, block, strides, dilations, pads[:axes], pads[axes:], strict=True)
    steps = [(size + b + e - d * (k - 1) - 1) // s + 1 for size, k, s, d, b, e in places]
    dims = (draw(SIZE), draw(SIZE) * int(np.prod(block)), int(np.prod(steps)))
    call = f"Col2Im<pads = {pads}, strides = {strides}, dilations = {dilations}>(x, i, b)"
    judge(draw, call, x=numbers(draw, dims), i=ints(image), b=ints(block))

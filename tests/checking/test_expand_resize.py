import numpy as np
import pytest
from tests.checking.test_expand import agree, normal

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def judge(attributes, *, scales=None, sizes=None, roi=None, shape=(5, 4)):
    feeds = {"x": normal(*shape)}
    given = {"roi": roi, "scales": scales, "sizes": sizes}
    head = f"float[{','.join('ABCD'[: len(shape)])}] x"
    for name, numbers in given.items():
        if numbers is not None:
            kind = "int64" if name == "sizes" else "float"
            feeds[name] = np.array(numbers, np.int64 if name == "sizes" else np.float32)
            head += f", {kind}[{len(numbers)}] {name}"
    arguments = ", ".join(name if numbers is not None else "" for name, numbers in given.items())
    text = f"({head}) => (float[{','.join('PQRS'[: len(shape)])}] y) "
    return agree(f"{text} {{ y = Resize<{attributes}>(x, {arguments}) }}", feeds)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "change",
    [
        {"scales": [2.0, 0.6]},
        {"scales": [1.3, 1.7]},
        {"scales": [0.5, 0.3]},
        {"sizes": [3, 9]},
        {"sizes": [7, 1]},
    ],
)
def test_coordinates(change, mode, coordinates):
    judge(f'mode = "{mode}", coordinate_transformation_mode = "{coordinates}"', **change)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_the_nearest_place(coordinates, rounding):
    attributes = f'coordinate_transformation_mode = "{coordinates}", nearest_mode = "{rounding}"'
    for scales in ([2.0, 3.0], [0.5, 1.5], [1.25, 0.75], [0.6, 1.1]):
        judge(attributes, scales=scales, shape=(8, 6))
    judge(attributes, sizes=[5, 16], shape=(8, 6))


FILTERS = [
    'mode = "linear", antialias = 1',
    'mode = "linear", antialias = 1, exclude_outside = 1',
    'mode = "cubic", antialias = 1',
    'mode = "cubic", antialias = 1, exclude_outside = 1, cubic_coeff_a = -0.5',
    'mode = "cubic", exclude_outside = 1',
    'mode = "cubic", cubic_coeff_a = -0.5',
]


@pytest.mark.parametrize("attributes", FILTERS)
@pytest.mark.parametrize("scales", [[0.4, 0.6], [1.6, 0.3], [1.3, 2.0]])
def test_filters(scales, attributes):
    judge(attributes, scales=scales, shape=(7, 6))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [[0.1, 0.2, 0.8, 0.9], [-0.3, 0.4, 0.7, 1.4], [0.9, 0, 0.2, 1]])
def test_parts(roi, mode):
    attributes = 'coordinate_transformation_mode = "tf_crop_and_resize"'
    attributes += f', extrapolation_value = 7.0, mode = "{mode}"'
    judge(attributes, scales=[1.6, 0.7], roi=roi)
    judge(attributes, sizes=[4, 7], roi=roi)
    judge(attributes, sizes=[1, 3], roi=roi)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [[7, 9], [3, 9], [2, 2], [9, 3]])
def test_kept_aspect_ratios(sizes, mode, policy):
    judge(f'mode = "{mode}", keep_aspect_ratio_policy = "{policy}"', sizes=sizes, shape=(4, 6))


@pytest.mark.parametrize("axes", [[1], [2, 1], [-1, 0]])
def test_named_axes(axes):
    shape, numbers = (3, 4, 5), [1.5, 0.7][: len(axes)]
    judge(f'mode = "linear", axes = {axes}', scales=numbers, shape=shape)
    judge(f"axes = {axes}", sizes=[6, 2][: len(axes)], shape=shape)

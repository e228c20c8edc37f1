import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import ints, judge
from tests.judge import parse

from whileback.errors import UnsupportedError
from whileback.gradient import vjp

IMAGE = np.linspace(-2, 3, 6, dtype=np.float32).reshape(1, 1, 2, 3)
KINDS = ["float[1,1,2,3]", "float[A,B,C,D]"]
MODES = [
    'mode = "nearest"',
    'mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"',
    'mode = "linear"',
    'mode = "linear", coordinate_transformation_mode = "align_corners"',
    'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"',
    'mode = "linear", antialias = 1',
    'mode = "cubic"',
    'mode = "cubic", cubic_coeff_a = -0.5, exclude_outside = 1',
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS[:1])
def test_sizes(kind, mode):
    body = f"y = Resize<{mode}>(h, , , s)"
    judge(f"{ints(s=[1, 1, 5, 2])} {body}", kind, x=IMAGE, second_order=False)
    judge(body, kind, "int64[4] s", second_order=False, s=[1, 1, 1, 5], x=IMAGE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS[1:])
def test_scales(kind, mode):
    body = f"y = Resize<{mode}>(h, , s)"
    known = "s = Constant<value_floats = [1.0, 1.0, 0.5, 2.0]>()"
    judge(f"{known} {body}", kind, x=IMAGE)
    judge(
        body,
        kind,
        "float[4] s",
        second_order=False,
        s=np.array([1, 1, 1.5, 3], np.float32),
        x=IMAGE,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_rows_that_change_although_their_number_stays(mode):
    body = f'y = Resize<mode = "{mode}">(h, , s)'
    scales = np.array([1, 1, 1.2, 2.5], np.float32)
    judge(body, "float[A,B,C,D]", "float[4] s", s=scales, x=IMAGE)


@pytest.mark.parametrize("kind", KINDS)
def test_named_axes(kind):
    body = 'y = Resize<mode = "linear", axes = [2, 3]>(h, , , s)'
    judge(f"{ints(s=[3, 5])} {body}", kind, x=IMAGE)


@pytest.mark.parametrize("kind", ["float[1,2,3,1]", "float[A,B,C,1]"])
def test_axes_that_are_not_the_last(kind):
    body = f'{ints(s=[2, 6, 2, 1])} y = Resize<mode = "nearest">(h, , , s)'
    judge(body, kind, x=IMAGE[:, 0, :, :, None])


def test_three_axes():
    x = np.linspace(-2, 3, 24, dtype=np.float32).reshape(1, 1, 2, 3, 4)
    body = f'{ints(s=[1, 1, 3, 5, 6])} y = Resize<mode = "linear">(h, , , s)'
    judge(body, "float[A,B,C,D,E]", x=x)


def test_a_cropped_part_with_a_value_around_it():
    attributes = 'coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.0'
    body = f'y = Resize<mode = "linear", {attributes}>(h, r, , s)'
    known = "r = Constant<value_floats = [0.0, 0.0, 0.3, -0.2, 1.0, 1.0, 0.9, 1.3]>()"
    judge(f"{known} {ints(s=[1, 1, 5, 6])} {body}", "float[A,B,C,D]", x=IMAGE)


def test_half_precision():
    body = f'{ints(s=[1, 1, 5, 2])} y = Resize<mode = "linear">(h, , , s)'
    x = IMAGE.astype(np.float16)
    judge(body, "float16[A,B,C,D]", result="float16", x=x)


def refusal(signature, body, wrt="x"):
    model = parse(f"({signature}) => (float[A,B] y) {{ {body} }}")
    with pytest.raises(UnsupportedError) as error:
        vjp(model, of="y", wrt=wrt)
    return str(error.value)


def test_refusals():
    body = "h = Reshape(x, n) y = Resize(h, , , s)"
    assert refusal("float[N] x, int64[R] n, int64[2] s", body) == (
        "Node 'Resize' (Resize) has an input 'h' of unknown rank (FLOAT[?]), and its gradient is "
        "written axis by axis. Declare the shape of the input; its dimensions may be symbols."
    )
    body = 'y = Resize<keep_aspect_ratio_policy = "not_larger">(x, , , s)'
    assert refusal("float[2,3] x, int64[2] s", body) == (
        "Node 'Resize' (Resize) keeps the aspect ratio, which has no gradient yet. "
        "Give it the `scales` instead of `sizes`."
    )
    assert refusal("float[2,3] x, float[2] s", "y = Resize(x, , s)", "s") == (
        "Node 'Resize' (Resize): the gradient with respect to 's', which says where to sample, is "
        "not known. Only its first input has one."
    )

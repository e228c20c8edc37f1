import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import values
from tests.gradient.rules.tensor.squares import ints, judge
from tests.judge import assert_gradient, parse

from whileback.errors import UnsupportedError, WhilebackWarning
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


PLANE = values(5, 4)
ALIGNED = 'coordinate_transformation_mode = "align_corners"'
SMOOTH = [mode for mode in MODES if "nearest" not in mode and ALIGNED not in mode] + [
    'mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"',
    'mode = "cubic", antialias = 1, exclude_outside = 1',
]


def judge_all(attributes, arguments, constants="", **inputs):
    """Judge gradients with respect to all floats, those that say where to sample included."""
    kinds = {name: "int64" if v.dtype.kind == "i" else "float" for name, v in inputs.items()}
    head = ", ".join(f"{kind}[{len(inputs[name])}] {name}" for name, kind in kinds.items())
    model = f"""(float[A,B] x, {head}) => (float[N] y) <int64[1] n = {{-1}}> {{
      {constants} z = Resize<{attributes}>(x, {arguments}) y = Reshape(z, n)
    }}"""
    wrt = ["x", *(name for name, kind in kinds.items() if kind == "float")]
    assert_gradient(model, ["y"], wrt, {"x": PLANE, **inputs}, second_order=True)


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize("scales", [[1.3, 0.7], [0.55, 1.7]])
def test_gradients_of_scales(scales, mode):
    judge_all(mode, ", s", s=np.array(scales, np.float32))


@pytest.mark.parametrize("attributes", ['mode = "nearest"', f'mode = "linear", {ALIGNED}'])
def test_scales_that_move_nothing(attributes):
    model = f"""(float[A,B] x, float[2] s) => (float[C,D] y) {{
      y = Resize<{attributes}>(x, , s)
    }}"""
    with pytest.warns(WhilebackWarning, match="'s': its gradient is zero everywhere"):
        got = gradients(model, {"x": PLANE, "s": [2.5, 0.5]})
    assert not got["s"].any()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("roi", [[0.1, 0.2, 0.83, 0.91], [-0.3, 0.45, 0.7, 1.4]])
def test_gradients_of_regions(roi, mode):
    attributes = f'coordinate_transformation_mode = "tf_crop_and_resize", mode = "{mode}"'
    region = np.array(roi, np.float32)
    judge_all(attributes, "r, , s", r=region, s=np.array([4, 6]))
    scales = "s = Constant<value_floats = [1.7, 0.7]>()"
    judge_all(attributes, "r, s", scales, r=region)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [[7, 9], [3, 2]])
def test_kept_aspect_ratios(sizes, mode, policy):
    attributes = f'{mode}, keep_aspect_ratio_policy = "{policy}"'
    judge_all(attributes, ", , s", s=np.array(sizes))


def test_sizes_that_rounding_makes():
    """35 times the float nearest to 1.4 is less than 49, but ONNX Runtime rounds it to that."""
    scale = "s = Constant<value_floats = [1.0, 1.4]>()"
    model = f"(float[1,35] x) => (float[A,B] y) {{ {scale} y = Resize(x, , s) }}"
    assert_gradient(model, ["y"], ["x"], second_order=True)


def test_a_rank_that_only_the_sizes_tell():
    body = f'{ints(s=[1, 1, 5, 2])} y = Resize<mode = "linear">(h, , , s)'
    judge(body, "float[]", x=IMAGE)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("numbers", [[2.0, 3.0], [0.6, 0.5], [1.5, 0.6]])
def test_the_first_opset_of_resize(numbers, mode):
    scales = np.array([1, 1, *numbers], np.float32)
    text = ", ".join(map(str, scales.tolist()))
    head, result = "float[1,1,A,B] x", "float[1,1,C,D] y"
    call = f'y = Resize<mode = "{mode}">(x, s)'
    known = f"({head}) => ({result}) {{ s = Constant<value = float[4] {{{text}}}>() {call} }}"
    assert_gradient(known, ["y"], ["x"], {"x": IMAGE}, opset=10)
    given = {"x": IMAGE, "s": scales}
    model = f"({head}, float[4] s) => ({result}) {{ {call} }}"
    assert_gradient(model, ["y"], ["x"], given, opset=10, second_order=True)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsample(opset, mode):
    attribute = ", scales = [1.0, 1.0, 2.0, 1.5]" if opset == 7 else ""
    arguments = "x" if opset == 7 else "x, s"
    model = f"""(float[1,1,A,B] x) => (float[1,1,C,D] y) {{
      s = Constant<value = float[4] {{1, 1, 2, 1.5}}>()
      y = Upsample<mode = "{mode}"{attribute}>({arguments})
    }}"""
    assert_gradient(model, ["y"], ["x"], {"x": IMAGE}, opset=opset, second_order=True)


def test_unknown_rank():
    model = parse("""(float[N] x, int64[R] n, int64[S] s) => (float y) {
      h = Reshape(x, n) y = Resize(h, , , s)
    }""")
    model.graph.outputs[0].shape = None
    with pytest.raises(UnsupportedError) as error:
        vjp(model, of="y", wrt="x")
    assert str(error.value) == (
        "Node 'Resize' (Resize) has an input 'h' of unknown rank (FLOAT[?]), and its gradient is "
        "written axis by axis. Declare the shape of the input; its dimensions may be symbols."
    )

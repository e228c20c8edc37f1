import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import UnsupportedError, WhilebackWarning
from whileback.gradient import vjp

PADDINGS = ("zeros", "border", "reflection")
IMAGE = np.array([[[[1, 2, 4], [8, 16, 32], [64, 128, 256]]]], np.float32)
# From far outside to far outside, through the borders of three pixels and all of these.
ACROSS = [-3, -2.25, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2.25, 3]
# What PyTorch gives for these with align_corners=True, a quarter below the middle row.
PYTORCH = {
    "zeros": [0, 0, 22, 22, 22, 44, 44, -88, -88, 0, 0],
    "border": [0, 0, 0, 0, 22, 44, 44, 0, 0, 0, 0],
    "reflection": [0, -44, -22, 0, 22, 44, 44, 0, -44, -22, 0],
}


def points(*shape, dtype="float32"):
    """Return a grid that points at and around an image, nowhere at a pixel."""
    axes = len(shape) - 1
    return np.random.default_rng(axes).uniform(-1.6, 1.6, (*shape, axes)).astype(dtype)


@pytest.mark.parametrize("kind", ["known", "symbols"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_two_axes(mode, padding, aligned, kind):
    attributes = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}'
    judge(f"GridSample<{attributes}>", kind, x=values(2, 2, 3, 4), grid=points(2, 2, 3))


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
def test_three_axes(padding, aligned):
    attributes = f'padding_mode = "{padding}", align_corners = {aligned}'
    grid = points(2, 2, 1, 3)
    judge(f"GridSample<{attributes}>", "symbols", x=values(2, 1, 3, 2, 4), grid=grid)


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
@pytest.mark.parametrize("padding", PADDINGS)
def test_nearest_pixels(padding, shape):
    call = f'GridSample<mode = "nearest", padding_mode = "{padding}">'
    grid = points(2, *shape)
    judge(call, "symbols", wrt=["x"], x=values(2, 2, *shape), grid=grid)


def test_the_nearest_pixel_does_not_move_with_the_grid():
    model = """(float[1,1,3,3] x, float[1,1,4,2] g) => (float[1,1,1,4] y) {
      y = GridSample<mode = "nearest">(x, g)
    }"""
    with pytest.warns(WhilebackWarning, match="'g': its gradient is zero everywhere"):
        assert not gradients(model, {"x": IMAGE, "g": points(1, 1, 4)})["g"].any()


@pytest.mark.parametrize(("mode", "opset"), [("bilinear", 16), ("bicubic", 16), ("linear", 22)])
def test_other_opsets(mode, opset):
    call = f'GridSample<mode = "{mode}">'
    judge(call, opset=opset, x=values(1, 2, 3, 4), grid=points(1, 2, 3))


def test_double():
    inputs = {"x": values(1, 1, 3, 4, dtype="float64"), "grid": points(1, 2, 3, dtype="float64")}
    judge("GridSample", **inputs)


def test_half_precision():
    judge("GridSample", x=values(1, 1, 3, 4, dtype="float16"), grid=points(1, 2, 3).astype("f2"))


@pytest.mark.parametrize("padding", PADDINGS)
def test_slopes_at_pixels_and_borders(padding):
    grid = np.array([[[[n, 0.25] for n in ACROSS]]], np.float32)
    model = f"""(float[1,1,3,3] x, float[1,1,N,2] g) => (float[1,1,1,N] y) {{
      y = GridSample<padding_mode = "{padding}", align_corners = 1>(x, g)
    }}"""
    slopes = gradients(model, {"x": IMAGE, "g": grid})["g"]
    np.testing.assert_allclose(slopes[0, 0, :, 0], PYTORCH[padding])


@pytest.mark.parametrize(("batch", "width"), [(0, 3), (2, 0)])
def test_nothing_to_sample(batch, width):
    model = """(float[N,2,3,4] x, float[N,2,W,2] g) => (float[N,2,2,W] y) {
      y = GridSample(x, g)
    }"""
    inputs = {"x": values(batch, 2, 3, 4), "g": np.zeros((batch, 2, width, 2), np.float32)}
    got = gradients(model, inputs)
    assert got["g"].shape == (batch, 2, width, 2)
    np.testing.assert_array_equal(got["x"], np.zeros((batch, 2, 3, 4)))


def test_cubic_samples_of_three_axes():
    """ONNX Runtime has none; at a pixel of the first axis they are those of two axes."""
    x, flat = values(1, 1, 3, 4, 4), points(1, 2, 2)
    depth = np.full((1, 2, 2, 1), 2 / 3, np.float32)
    results = []
    for image, grid in ((x, np.concatenate([flat, depth], -1)[:, None]), (x[:, :, 2], flat)):
        shapes = [",".join(map(str, array.shape)) for array in (image, grid)]
        model = parse(
            f"(float[{shapes[0]}] x, float[{shapes[1]}] g) => (float y) "
            '{ y = GridSample<mode = "cubic">(x, g) }'
        )
        model.graph.outputs[0].shape = None
        feeds = {"x": image, "g": grid, "y_grad": np.ones((1, 1, *grid.shape[1:-1]), np.float32)}
        results.append(compile(vjp(model, of="y", wrt=["x", "g"]), "reference")(feeds))
    volume, plane = results
    np.testing.assert_allclose(volume["x_grad"][:, :, 2], plane["x_grad"], atol=1e-5)
    np.testing.assert_allclose(volume["g_grad"][:, 0, ..., :2], plane["g_grad"], atol=1e-5)


def test_one_value_as_image_and_grid():
    model = "(float[1,2,2,2] x) => (float[1,2,2,2] y) { y = GridSample(x, x) }"
    assert_gradient(model, ["y"], ["x"], {"x": points(1, 2, 2)}, second_order=True)


def test_unknown_rank():
    model = parse(
        "(float[N] a, int64[R] s, float[M] b, int64[Q] t) => (float y) "
        "{ x = Reshape(a, s) g = Reshape(b, t) y = GridSample(x, g) }"
    )
    model.graph.outputs[0].shape = None
    with pytest.raises(UnsupportedError) as error:
        vjp(model, of="y", wrt="a")
    assert str(error.value) == (
        "Node 'GridSample' (GridSample) has an input 'x' of unknown rank (FLOAT[?]), and its "
        "gradient is written axis by axis. Declare the shape of the input; its dimensions may be "
        "symbols."
    )


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("kind", ["known", "symbols", "unknown"])
@pytest.mark.parametrize("size", [[2, 3, 3, 4], [1, 1, 2, 3, 2], [2, 1, 1, 1]])
def test_affine_grids(size, kind, aligned):
    axes = len(size) - 2
    theta = values(size[0], axes, axes + 1)
    call = f"AffineGrid<align_corners = {aligned}>"
    if size[-1] > 1 or not aligned:
        judge(call, kind, opset=20, theta=theta, size=np.array(size))


def test_a_spatial_transformer():
    model = """(float[1,2,3] theta, float[1,2,4,5] x) => (float[1,2,3,3] y)
      <int64[4] size = {1, 2, 3, 3}> {
      g = AffineGrid(theta, size) y = GridSample(x, g)
    }"""
    inputs = {"theta": np.array([[[0.9, 0.1, 0.05], [-0.1, 0.8, 0.02]]], np.float32)}
    inputs["x"] = values(1, 2, 4, 5)
    assert_gradient(model, ["y"], ["theta", "x"], inputs, opset=20, second_order=True)


def test_affine_grids_of_other_types():
    judge(
        "AffineGrid", opset=20, theta=values(1, 2, 3, dtype="float64"), size=np.array([1, 1, 2, 3])
    )


def test_affine_grids_of_no_images():
    model = "(float[N,A,B] t, int64[4] s) => (float[N,H,W,2] y) { y = AffineGrid(t, s) }"
    inputs = {"t": np.zeros((0, 2, 3), np.float32), "s": np.array([0, 1, 2, 2])}
    assert gradients(model, inputs)["t"].shape == (0, 2, 3)

import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values
from tests.judge import parse

from whileback.engines import compile
from whileback.gradient import vjp
from whileback.graph.cleanup import prune

# Attributes; images, weight, and the size of the output.
WINDOWS = [
    ("", (1, 2, 4, 3), (3, 2, 2, 2), (3, 2)),
    ("pads = [1, 0, 2, 1], strides = [2, 1]", (2, 2, 4, 3), (1, 2, 3, 2), (3, 3)),
    ("dilations = [2, 1], kernel_shape = [2, 2]", (1, 1, 4, 3), (1, 1, 2, 2), (2, 2)),
    ("group = 2", (1, 4, 3, 2), (2, 2, 2, 1), (2, 2)),
    ("offset_group = 2", (2, 4, 3, 2), (1, 4, 2, 1), (2, 2)),
    ("group = 2, offset_group = 2, pads = [1, 1, 1, 1]", (1, 4, 2, 2), (4, 2, 1, 2), (4, 3)),
]


def arguments(attributes, image, weight, output, dtype="float32", **more):
    groups = 2 if "offset_group = 2" in attributes else 1
    places = groups * int(np.prod(weight[2:]))
    moves = np.random.default_rng(4).uniform(-1.4, 1.4, (image[0], 2 * places, *output))
    given = {
        "x": values(*image, dtype=dtype),
        "w": values(*weight, seed=1, dtype=dtype),
        "offset": moves.astype(dtype),
    }
    if more.get("masked"):
        given["b"] = values(weight[0], seed=2, dtype=dtype)
        given["mask"] = values(image[0], places, *output, seed=3, dtype=dtype)
    return given


@pytest.mark.parametrize("kind", ["known", "symbols"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window, masked, kind):
    judge(f"DeformConv<{window[0]}>", kind, elements=6, **arguments(*window, masked=masked))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types(dtype):
    window = ("", (1, 2, 3, 3), (2, 2, 2, 2), (2, 2))
    judge("DeformConv", **arguments(*window, dtype=dtype, masked=True))


@pytest.mark.parametrize("opset", [19, 22])
def test_other_opsets(opset):
    judge("DeformConv", opset=opset, **arguments("", (1, 1, 3, 2), (1, 1, 2, 2), (2, 1)))


def test_weights_alone():
    given = arguments("", (1, 1, 3, 2), (1, 1, 2, 2), (2, 1))
    judge("DeformConv", "symbols", wrt=["w"], **given)


def gradients_alone(given):
    """Return the gradients of a sum, without computing that, for which no engine is needed."""
    head = ", ".join(f"float[{','.join(map(str, a.shape))}] {n}" for n, a in given.items())
    model = parse(f"({head}) => (float y) {{ y = DeformConv({', '.join(given)}) }}")
    model.graph.outputs[0].shape = None
    wrt = list(given)
    model = vjp(model, of="y", wrt=wrt)
    model.graph.outputs.pop(0)
    prune(model.graph)
    output = (*given["x"].shape[:1], *given["w"].shape[:1], *given["offset"].shape[2:])
    results = compile(model)({**given, "y_grad": np.ones(output, np.float32)})
    return dict(zip(wrt, results.values(), strict=True))


def with_axes(count, given):
    """Return arguments with a first axis of size 1 more, or less, than the two that they have."""
    change = np.expand_dims if count == 3 else np.squeeze
    moves = given["offset"].reshape(2, 2, 2, 1, 4)
    moves = (
        np.pad(moves, [(0, 0), (0, 0), (1, 0), (0, 0), (0, 0)]) if count == 3 else moves[:, :, 1:]
    )
    changed = {n: a if n == "b" else change(a, 2) for n, a in given.items()}
    return changed | {"offset": change(moves, 3).reshape(2, -1, *changed["mask"].shape[2:])}


@pytest.mark.parametrize("count", [1, 3])
def test_other_numbers_of_axes(count):
    """No engine has them: they are what two axes are where the others have size 1."""
    given = arguments("", (2, 2, 1, 5), (3, 2, 1, 2), (1, 4), masked=True)
    given["offset"].reshape(2, 2, 2, 1, 4)[:, :, 0] = 0
    expected = with_axes(count, gradients_alone(given))
    got = gradients_alone(with_axes(count, given))
    if count == 3:
        got["offset"].reshape(2, 2, 3, 1, 1, 4)[:, :, 0] = 0
    for name, gradient in got.items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-5, err_msg=name)


def test_an_empty_batch():
    model = """(float[N,2,3,3] x, float[3,2,2,2] w, float[N,8,2,2] o) => (float[N,3,2,2] y) {
      y = DeformConv(x, w, o)
    }"""
    given = arguments("", (0, 2, 3, 3), (3, 2, 2, 2), (2, 2))
    got = gradients(model, {"x": given["x"], "w": given["w"], "o": given["offset"]})
    assert got["x"].shape == (0, 2, 3, 3)
    assert got["o"].shape == (0, 8, 2, 2)
    np.testing.assert_array_equal(got["w"], np.zeros((3, 2, 2, 2)))

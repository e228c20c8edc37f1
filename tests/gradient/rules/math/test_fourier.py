import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import judge, values
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.gradient import vjp

TYPES = {"float32": "float", "float64": "double", "float16": "float16"}

# Attributes, and the size of the last axis.
TRANSFORMS = [
    ("inverse = 0", 1),
    ("inverse = 0", 2),
    ("inverse = 1", 1),
    ("inverse = 1", 2),
    ("onesided = 1", 1),
    ("inverse = 1, onesided = 1", 2),
]


@pytest.mark.parametrize("kind", ["known", "symbols", "unknown"])
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize(("attributes", "pair"), TRANSFORMS)
def test_last_axis(attributes, pair, size, kind):
    if size > 1 or "onesided" not in attributes:
        judge(f"DFT<{attributes}>", kind, x=values(2, size, pair))


def assert_transform(attributes, arguments, x, dims, *, opset=21, constants="", **more):
    """Judge a DFT whose arguments after the data are given as text."""
    pair = x.shape[-1]
    head = f"{TYPES[x.dtype.name]}[{dims},{pair}] x"
    given = "".join(f", {'int32' if v.dtype == np.int32 else 'int64'} {n}" for n, v in more.items())
    model = f"""({head}{given}) => ({TYPES[x.dtype.name]}[N] y) <int64[1] n = {{-1}}{constants}> {{
      z = DFT<{attributes}>(x{arguments}) y = Reshape(z, n)
    }}"""
    assert_gradient(model, ["y"], ["x"], {"x": x, **more}, opset=opset, second_order=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -4])
@pytest.mark.parametrize(("attributes", "pair"), TRANSFORMS)
def test_other_axes(attributes, pair, axis):
    x = values(2, 3, 4, pair)
    if x.shape[axis] > 2 or "inverse = 1, onesided" not in attributes:
        assert_transform(attributes, ", , a", x, "A,B,C", constants=f", int64 a = {{{axis}}}")
    assert_transform(attributes, ", , a", values(3, 3, 3, pair), "A,3,C", a=np.array(axis))


@pytest.mark.parametrize("length", [2, 3, 4, 5, 8])
@pytest.mark.parametrize(("attributes", "pair"), TRANSFORMS[:5])
def test_other_lengths(attributes, pair, length):
    x = values(2, 4, pair)
    assert_transform(attributes, ", l", x, "A,4", constants=f", int64 l = {{{length}}}")
    assert_transform(attributes, ", l, a", x, "A,B", l=np.array(length), a=np.array(1))
    assert_transform(attributes, ", l", x, "A,B", l=np.array(length, np.int32))


@pytest.mark.parametrize("length", [6, 7])
def test_lengths_of_real_results(length):
    x = values(2, 4, 2)
    assert_transform("inverse = 1, onesided = 1", ", l", x, "A,B", l=np.array(length))


@pytest.mark.parametrize("length", [3, 4, 5, 9])
def test_spectra_that_are_cut_off_or_filled_up(length):
    """ONNX Runtime 1.32 reads more of them than there should be; NumPy does not."""
    model = parse(
        "(float[2,4,2] x, int64 l) => (float[2,N,1] y) { y = DFT<inverse = 1, onesided = 1>(x, l) }"
    )
    x, seed = values(2, 4, 2), values(2, length, 1, seed=1)
    feeds = {"x": x, "l": np.array(length), "y_grad": seed}
    got = compile(vjp(model, of="y", wrt="x"))(feeds)["x_grad"]
    units = np.eye(x.size).reshape(-1, *x.shape)
    results = np.fft.irfft(units[..., 0] + 1j * units[..., 1], length)
    expected = np.sum(results * seed[..., 0], axis=(1, 2)).reshape(x.shape)
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("axis", ["", ", axis = 2", ", axis = -3"])
@pytest.mark.parametrize(("attributes", "pair"), TRANSFORMS)
def test_the_axis_as_an_attribute(attributes, pair, axis):
    x = values(3, 3, 4, pair)
    assert_transform(attributes + axis, "", x, "A,B,C", opset=17)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize(("attributes", "pair"), TRANSFORMS)
def test_other_types(attributes, pair, dtype):
    assert_transform(attributes, "", values(2, 4, pair, dtype=dtype), "2,4")


def test_an_empty_batch():
    model = "(float[N,4,2] x) => (float[N,4,2] y) { y = DFT(x) }"
    assert gradients(model, {"x": values(0, 4, 2)})["x"].shape == (0, 4, 2)


FRAMES = [
    ("step, w", {"step": 2}),
    ("step, w", {"step": 5}),
    ("step, w, n", {"step": 1, "n": 4}),
    ("step, , n", {"step": 3, "n": 5}),
]


@pytest.mark.parametrize("kind", ["2,9,1", "A,B,1", "A,B,C"])
@pytest.mark.parametrize(("arguments", "numbers"), FRAMES)
@pytest.mark.parametrize(("onesided", "pair"), [(1, 1), (0, 1), (0, 2)])
def test_frames(onesided, pair, arguments, numbers, kind):
    call = f"STFT<onesided = {onesided}>(x, {arguments})"
    assert_frames(call, values(2, 9, pair), kind.replace("1", str(pair)), numbers)


def assert_frames(call, x, kind, numbers, window=4, **options):
    type_ = TYPES[x.dtype.name]
    inputs = {"x": x} | {name: np.array(number) for name, number in numbers.items()}
    head = f"{type_}[{kind}] x" + "".join(f", int64 {name}" for name in numbers)
    if ", w" in call:
        inputs["w"] = values(window, seed=1, dtype=x.dtype.name)
        head += f", {type_}[W] w"
    model = f"""({head}) => ({type_}[N] y) <int64[1] flat = {{-1}}> {{
      z = {call} y = Reshape(z, flat)
    }}"""
    wrt = [name for name in inputs if name in "xw"]
    assert_gradient(model, ["y"], wrt, inputs, second_order=True, **options)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_frames_of_other_types(dtype):
    assert_frames("STFT(x, step, w)", values(1, 8, 1, dtype=dtype), "1,8,1", {"step": 2})


def test_frames_in_an_older_opset():
    assert_frames("STFT(x, step, w)", values(1, 8, 1), "1,8,1", {"step": 2}, opset=17)


def test_one_frame_of_the_whole_signal():
    """ONNX Runtime 1.32 needs a window or a length here; the other engine does not."""
    x = values(2, 8, 1)
    results = []
    for arguments in ("step", "step, , n"):
        model = parse(
            "(float[A,B,1] x) => (float[A,F,5,2] y) <int64 step = {3}, int64 n = {8}> "
            f"{{ y = STFT(x, {arguments}) }}"
        )
        run = compile(vjp(model, of="y", wrt="x"), "reference")
        results.append(run({"x": x, "y_grad": values(2, 1, 5, 2, seed=1)})["x_grad"])
    np.testing.assert_array_equal(*results)


def test_frames_of_no_signals():
    model = """(float[N,8,1] x, float[4] w) => (float[N,F,3,2] y) <int64 step = {2}> {
      y = STFT(x, step, w)
    }"""
    got = gradients(model, {"x": values(0, 8, 1), "w": values(4)})
    assert got["x"].shape == (0, 8, 1)
    np.testing.assert_array_equal(got["w"], np.zeros(4))

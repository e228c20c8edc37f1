import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.nn.single import KINDS, judge, values
from tests.judge import assert_gradient

from whileback.errors import WhilebackWarning


def arguments(*shape, dtype="float32"):
    """Return the inputs of a node for data of a shape."""
    channels = shape[1] if len(shape) > 1 else 1
    names = ("scale", "b", "mean", "variance")
    rest = {name: values(channels, dtype=dtype, seed=i) for i, name in enumerate(names)}
    rest["variance"] = np.abs(rest["variance"])
    return {"x": values(*shape, dtype=dtype, seed=5)} | rest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 3, 2), (4, 3), (2, 3, 1, 2)])
def test_inference(shape, kind):
    """Conformance case H4: mean and variance have gradients as well."""
    judge("BatchNormalization<epsilon = 0.1>", kind, **arguments(*shape))


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_batch_without_an_axis_of_channels(kind):
    judge("BatchNormalization", kind, **arguments(4))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(2, 3, 2), (4, 3)])
def test_training(shape, dtype, known):
    """The running values are differentiated as the functions that they are.

    They are outputs of the model: ONNX Runtime 1.32 writes them over the inputs otherwise.
    """
    type_ = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    data = ",".join(map(str, shape if known else "ABC"[: len(shape)]))
    model = f"""(T[{data}] x, T[3] s, T[3] b, T[3] m, T[3] v) => (T[{data}] y, T[3] m1, T[3] v1) {{
      y, m1, v1 = BatchNormalization<training_mode = 1>(x, s, b, m, v)
    }}""".replace("T[", f"{type_}[")
    inputs = dict(zip("xsbmv", arguments(*shape, dtype=dtype).values(), strict=True))
    assert_gradient(model, ["y", "m1", "v1"], list(inputs), inputs, second_order=True, directions=2)
    assert_gradient(model, ["y"], ["x", "s", "b"], inputs, second_order=True, directions=2)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types(dtype):
    judge("BatchNormalization", **arguments(2, 2, 2, dtype=dtype))


def test_scale_of_another_type_than_the_data():
    model = """(float16[2,3] x, float[3] s, float[3] b, float[3] m, float[3] v)
        => (float16[2,3] y) { y = BatchNormalization(x, s, b, m, v) }"""
    x, s, b, m, v = arguments(2, 3).values()
    inputs = {"x": x.astype(np.float16), "s": s, "b": b, "m": m, "v": v}
    got = gradients(model, inputs, np.ones((2, 3)))
    assert {name: str(value.dtype) for name, value in got.items()} == {
        "x": "float16",
        "s": "float32",
        "b": "float32",
        "m": "float32",
        "v": "float32",
    }
    slope = s / np.sqrt(v + 1e-5)
    np.testing.assert_allclose(got["x"], np.tile(slope, (2, 1)), rtol=1e-3)
    np.testing.assert_allclose(got["m"], -2 * slope, rtol=1e-3)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_running_statistics_of_training(momentum):
    """Conformance case 31."""
    model = f"""<ir_version: 8, opset_import: ["" : 15]>
      g (float[4,1] x, float[1] s, float[1] b, float[1] m, float[1] v)
        => (float[4,1] y, float[1] m1, float[1] v1)
      {{
        y, m1, v1 = BatchNormalization<training_mode = 1, momentum = {momentum}>(x, s, b, m, v)
      }}"""
    inputs = {"x": [[1], [2], [3], [6]], "s": [2], "b": [0.5], "m": [0], "v": [1]}
    with pytest.warns(WhilebackWarning, match="depends on '[mv]'"):
        got = gradients(model, inputs)
    np.testing.assert_allclose(got["x"], np.zeros((4, 1)), atol=1e-5)
    np.testing.assert_allclose(got["s"], [0], atol=1e-5)
    np.testing.assert_array_equal(got["b"], [4])
    np.testing.assert_array_equal(got["m"], [0])
    np.testing.assert_array_equal(got["v"], [0])
    arrays = {name: np.array(value, np.float32) for name, value in inputs.items()}
    assert_gradient(model, ["y"], ["x", "s", "b"], arrays)

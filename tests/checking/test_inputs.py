import numpy as np
import onnx_ir as ir
import pytest

from whileback.checking.inputs import random_inputs
from whileback.errors import ArgumentError

HEADER = '<ir_version: 10, opset_import: ["" : 21]> g '


def inputs(signature, given=None, defaults=""):
    model = ir.from_onnx_text(f"{HEADER} ({signature}) => (int64 o) {defaults} {{ o = Size(x) }}")
    return random_inputs(model, given or {}, np.random.default_rng(0))


def test_every_kind_of_input_gets_a_value():
    got = inputs(
        "float[B,C] x, float16[C,D] h, bfloat16[2] b, int64 n, int32[40] i, bool go, bool[40] m, "
        "string[2] s, seq(float[B]) q, optional(float[B]) p"
    )
    assert got["x"].shape == (3, 2) and got["x"].dtype == np.float32
    assert got["h"].shape == (2, 4) and got["h"].dtype == np.float16
    assert got["b"].dtype.name == "bfloat16"
    assert got["n"] == 3 and got["n"].shape == ()
    assert set(got["i"]) == {0, 1} and got["i"].dtype == np.int32
    assert got["go"] and got["go"].dtype == np.bool_
    assert set(got["m"]) == {True, False}
    assert got["s"].tolist() == ["", ""]
    assert [item.shape for item in got["q"]] == [(3,), (3,)]
    assert got["p"] is None


def test_given_values_stay_and_set_the_sizes_of_symbols():
    x = np.zeros((7, 5), np.float32)
    got = inputs("float[B,C] x, float[C,B,2] y, float[?] z", {"x": x})
    assert got["x"] is x
    assert got["y"].shape == (5, 7, 2)
    assert got["z"].shape == (3,)


def test_defaults_stay():
    assert list(inputs("float[1] x, float[1] w", defaults="<float[1] w = {3}>")) == ["x"]


def test_an_unknown_rank_is_refused():
    with pytest.raises(ArgumentError) as error:
        inputs("float[] x")
    assert str(error.value) == (
        "Input 'x' is FLOAT[?]: no random value can be made up for it. Pass a value in `inputs`."
    )

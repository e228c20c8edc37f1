import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

import whileback
from whileback.checking.inputs import random_inputs
from whileback.errors import ArgumentError, EngineError

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


PADDED = f"""{HEADER} (float[N,M] x, int64[2] pads, float k) => (float[A,B] y)
    <int64[1] last = {{1}}> {{
    p = Pad<mode = "reflect">(x, pads, , last)
    y = Mul(p, k)
}}"""


@pytest.mark.parametrize(
    "call", [lambda m, i: whileback.check(m, "y", "x", i), lambda m, i: whileback.profile(m, i)]
)
def test_an_error_of_a_run_tells_what_was_made_up(call):
    """A model may take other sizes than those that are made up where it tells none."""
    model = ir.from_onnx_text(PADDED)
    with pytest.raises(EngineError) as caught:
        call(model, {"pads": [4, 4]})
    own, hint = str(caught.value).split("\n")
    assert own.startswith("ONNX Runtime failed to run model 'g': ") and "Pad reflect" in own
    assert hint == (
        "Random values were made up for 'x' [3,2], 'k' []. If the model takes no such values or "
        "sizes, give it others: `name=name.npy` on the command line, or `inputs={'name': array}`."
    )
    given = {"pads": [4, 4], "x": np.ones((2, 3), np.float32), "k": 1.0}
    with pytest.raises(EngineError) as caught:
        call(model, given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [2**27 + 1, 2**40, 2**62])
def test_more_values_than_are_made_up(size: int) -> None:
    model = parse(f"(float[{size}] x) => (float[1] y) {{ y = ReduceSum(x) }}")
    with pytest.raises(ArgumentError) as error:
        random_inputs(model, {}, np.random.default_rng(0))
    assert str(error.value) == (
        f"Input 'x' is FLOAT[{size}]: so many random values are not made up. Pass a value in "
        "`inputs`."
    )

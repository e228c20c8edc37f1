"""Mixed precision: what is computed in which type, the scale of the loss, and steps left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse
from tests.training.test_step import RNN, with_weights

from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError
from whileback.gradient import names
from whileback.graph.scopes import walk
from whileback.training import Precision, adamw, evaluation, export, interface, output, sgd, step

RECORDED = np.load(Path(__file__).parent / "data" / "scale.npz")
LINE = "(float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
BLOCK = """(float[N,8] x, float[8,16] w0, float[16] b0, float[16,4] w1, float[4] b1, float[4] g,
    float[4] b) => (float[N,4] y) {
    a = MatMul(x, w0)
    c = Add(a, b0)
    h = Relu(c)
    z = Gemm(h, w1, b1)
    n = LayerNormalization(z, g, b)
    y = Softmax(n)
}"""


def types(model: ir.Model) -> dict[str, set[str]]:
    """Return which types of floats each operator of a model returns."""
    found: dict[str, set[str]] = {}
    for node in walk(model.graph):
        for value in node.outputs:
            if value.dtype is not None and value.dtype.is_floating_point():
                found.setdefault(node.op_type, set()).add(value.dtype.name)
    return found


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_what_is_computed_in_which_type(precision: str) -> None:
    """Products, and what follows on them; on the way back, too."""
    one = step(with_weights(BLOCK), "cross-entropy", "sgd", precision=precision)
    found, narrow = types(one), precision.upper()
    assert found["MatMul"] == found["Gemm"] == found["Relu"] == {narrow}
    assert found["LayerNormalization"] == {"FLOAT"}
    assert all(value.dtype != ir.DataType[narrow] for value in one.graph.outputs)
    assert {value.dtype for value in one.graph.outputs} == {ir.DataType.FLOAT} | (
        {ir.DataType.INT64} if precision == "float16" else set()
    )


@pytest.mark.parametrize(
    ("operator", "loss"), [("Sigmoid", "binary-cross-entropy"), ("Softmax", "cross-entropy")]
)
def test_losses_are_computed_in_float(operator: str, loss: str) -> None:
    """They read the logits, as without; nothing of them is in 16 bits."""
    text = LINE.replace("y = MatMul(x, w)", f"a = MatMul(x, w) y = {operator}(a)")
    plain, mixed = (step(parse(text), loss, "sgd", precision=each) for each in (None, "float16"))
    assert interface(mixed).losses == interface(plain).losses
    found = types(mixed)
    assert found.pop("MatMul") == {"FLOAT16"}
    narrow = {operator for operator, known in found.items() if "FLOAT16" in known}
    assert narrow <= {"Cast", "Transpose", "Gemm"}


def test_other_types_stay() -> None:
    text = LINE.replace("float", "double")
    assert types(step(parse(text), "mse", "sgd", precision="float16"))["MatMul"] == {"DOUBLE"}


def test_a_convolution_in_16_bits() -> None:
    """ONNX has it in BFLOAT16 since opset 22."""
    text = "(float[1,1,4] x, float[2,1,3] w) => (float[1,2,2] y) { y = Conv(x, w) }"
    expected = {("float16", 21): "FLOAT16", ("bfloat16", 21): "FLOAT", ("bfloat16", 22): "BFLOAT16"}
    for (precision, opset), found in expected.items():
        model = with_weights(text)
        model.opset_imports[""] = model.graph.opset_imports[""] = opset
        one = step(model, "mse", "sgd", precision=precision)
        assert found in types(one)["Conv"]


def test_the_scale_is_that_of_torch() -> None:
    """Steps left out, the scale after each, and what is made of the parameter."""
    text = """(float[1] x) => (float y) <float[2] w = {1, 1}> {
        a = Mul(w, x) y = ReduceSum<keepdims = 0>(a) }"""
    settings = Precision("float16", scale=1024.0, interval=3)
    f = compile(step(parse(text), output(), sgd(), precision=settings))
    kept: dict[str, Any] = {}
    for good, scale, w in zip(*(RECORDED[key] for key in ("finite", "scales", "w")), strict=True):
        out = f(kept, x=[1.0 if good else np.inf], learning_rate=0.01)
        kept = {name: out[f"{name}_next"] for name in ("w", "loss_scale", "finite_steps")}
        assert kept["loss_scale"] == scale
        np.testing.assert_allclose(kept["w"], w, rtol=1e-6)


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_a_step_that_is_left_out(wrong: float) -> None:
    f = compile(step(parse(LINE), "mse", "adam", precision="float16"))
    feeds = {"x": [[wrong, 1.0]], "label": [[0.0, 0.0]], "learning_rate": 0.1}
    out = f(feeds)
    assert out["w_next"].tolist() == [[1, 2], [3, 4]]
    assert not out["w_mean_next"].any()
    assert (out["steps_next"], out["loss_scale_next"], out["finite_steps_next"]) == (0, 32768, 0)


def test_gradients_that_would_be_lost() -> None:
    """In FLOAT16, a slope of 1e-8 is 0, but not if the loss is scaled."""
    feeds = {"x": [[1e-4, 0.0]], "label": [[1e-4, 0.0]], "learning_rate": 1.0}
    feeds["w"] = np.zeros((2, 2), "f")
    out = compile(step(parse(LINE), "mse", "sgd", precision="float16"))(feeds)
    np.testing.assert_allclose(out["w_next"][0, 0], 1e-8, rtol=0.01)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_network_learns_as_well(accumulate: int) -> None:
    """Ten classes of vectors of 64 numbers: the same accuracy in FLOAT and with FLOAT16."""
    text = """(float[N,64] x, float[64,32] w0, float[32] b0, float[32,10] w1, float[10] b1)
        => (float[N,10] y) { a = Gemm(x, w0, b0) h = Relu(a) y = Gemm(h, w1, b1) }"""
    random = np.random.default_rng(0)
    centres = random.normal(size=(10, 64))
    label = random.integers(0, 10, 600)
    x = (centres[label] + 1.5 * random.normal(size=(600, 64))).astype("f")
    losses = []
    for precision in (None, "float16"):
        one = step(
            with_weights(text), "cross-entropy", adamw(), precision=precision, accumulate=accumulate
        )
        f, kept = compile(one), {}
        for index in range(60 * accumulate):
            rows = slice(index * 50 % 600, index * 50 % 600 + 50)
            out = f(kept, x=x[rows], label=label[rows], learning_rate=0.02)
            kept = {old: out[new] for old, new in names(one).items()}
        losses.append(float(f(kept, x=x, label=label, learning_rate=0.0)["loss"]))
    assert losses[0] < 0.1
    assert losses[1] == pytest.approx(losses[0], rel=0.1)


@pytest.mark.parametrize(("engine", "precision"), [("onnxruntime", "float16"), ("xla", "bfloat16")])
def test_loops(engine: str, precision: str) -> None:
    """The slopes of a recurrent network are those in FLOAT, to the digits of the type."""
    pytest.importorskip("jax")
    x = np.random.default_rng(1).uniform(-1, 1, (5, 8, 1)).astype("f")
    feeds = {"x": x, "label": x.sum(0), "learning_rate": 1.0}
    expected = compile(step(with_weights(RNN), "mse", "sgd"))(feeds)
    one = step(with_weights(RNN), "mse", "sgd", precision=Precision(precision, scale=256.0))
    assert types(one)["MatMul"] == {precision.upper()}
    out = compile(one, engine=engine)(feeds)
    for name in interface(one).parameters:
        before = one.graph.initializers[name].const_value.numpy()
        slope, wanted = (before - each[f"{name}_next"] for each in (out, expected))
        bound = 0.05 if precision == "bfloat16" else 0.01
        np.testing.assert_allclose(slope, wanted, atol=bound * np.abs(wanted).max())


def half(dtype: str) -> ir.Model:
    model = parse(LINE.replace("float", dtype))
    w = model.graph.initializers["w"]
    w.const_value = ir.tensor(
        np.array([[1, 2], [3, 4]], ir.DataType[dtype.upper()].numpy()), name="w"
    )
    return model


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_16_bits_become_float(dtype: str) -> None:
    """A change that 16 bits would lose is kept."""
    one = step(half(dtype), "mse", "sgd", precision="float16")
    w = next(value for value in one.graph.inputs if value.name == "w")
    assert (w.dtype, w.const_value.numpy().tolist()) == (ir.DataType.FLOAT, [[1, 2], [3, 4]])
    assert (interface(one).parameters, interface(one).scale) == (["w"], "loss_scale")
    if dtype == "float16":
        x, label = np.array([[1, 0]], np.float16), np.array([[1, 1]], np.float16)
        out = compile(one)(x=x, label=label, learning_rate=1e-5, loss_scale=256.0)
        np.testing.assert_allclose(out["w_next"][0, 1] - 2, -1e-5, rtol=0.05)


def test_evaluating_parameters_of_16_bits() -> None:
    """The losses are those of the step, for what it has made of the parameters."""
    model = half("float16")
    f = compile(evaluation(model, "mse", step(model, "mse", "sgd", precision="float16")))
    assert f.inputs["w"].text == "FLOAT[2,2]"
    x = np.array([[1, 0]], np.float16)
    assert f(x=x, label=x, w=np.eye(2, dtype="f"))["loss"] == 0


def test_exported_parameters_have_16_bits_again() -> None:
    exported = export(half("bfloat16"), {"w": np.array([[1, 2], [3, 4 + 1e-6]], "f")})
    tensor = exported.graph.initializers["w"].const_value
    assert tensor.dtype == ir.DataType.BFLOAT16
    assert tensor.numpy().astype("f").tolist() == [[1, 2], [3, 4]]


def test_parameters_of_16_bits_that_have_a_default_already() -> None:
    model = half("float16")
    model.graph.inputs.append(model.graph.initializers["w"])
    inputs = compile(step(model, "mse", "sgd", precision="float16")).inputs
    assert list(inputs) == ["x", "w", "label", "loss_scale", "learning_rate", "finite_steps"]
    assert inputs["w"].text == "FLOAT[2,2]"


def test_an_engine_without_such_products() -> None:
    with pytest.raises(EngineError, match="Could not find an implementation for MatMul"):
        compile(step(parse(LINE), "mse", "sgd", precision="bfloat16"), engine="onnxruntime")


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ("float8", "precision='float8' is unknown; give 'float16' or 'bfloat16'."),
        (16, "precision=16 is unknown; give 'float16' or 'bfloat16'."),
    ],
)
def test_unknown_precision(precision: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(parse(LINE), "mse", "sgd", precision=precision)
    assert str(caught.value) == message


def test_wrong_settings() -> None:
    for settings in (
        {"scale": 0},
        {"growth": 1.0},
        {"backoff": 1.0},
        {"interval": 0},
        {"scale": "1"},
    ):
        with pytest.raises(ArgumentError, match="does not fit: the scale is above 0"):
            Precision("float16", **settings)

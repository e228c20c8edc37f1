"""Gradients without an optimizer, parameters as one vector, and what is frozen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse
from tests.training.models import MLP, RNN, Arrays, signs, with_weights

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.gradient import names
from whileback.graph.scopes import walk
from whileback.training import (
    Group,
    cross_entropy,
    evaluation,
    export,
    gradients,
    interface,
    joined,
    lora,
    parted,
    step,
)

DOUBLE = """(double[N,2] x) => (double[N,2] z)
    <double[2,2] w = {1,2,3,4}, double[2] b = {1,0}, double s = {0.5}> {
    a = Gemm(x, w, b)
    h = Tanh(a)
    z = Mul(h, s)
}"""


def sequences(length: int) -> Arrays:
    x = np.random.default_rng(1).uniform(-1, 1, (length, 4, 1)).astype("f")
    return {"x": x, "label": x.sum(0)}


def parameters(model: ir.Model) -> Arrays:
    held = model.graph.initializers
    return {name: held[name].const_value.numpy() for name in interface(model).parameters}


@pytest.mark.parametrize("flat", [False, True])
def test_finite_differences(flat: bool) -> None:
    model = gradients(parse(DOUBLE), "cross-entropy", "*", flat=flat)
    f, batch, before = compile(model), signs(5), parameters(model)
    batch["x"] = batch["x"].astype(np.float64)
    out = f(batch)
    for name, array in before.items():
        slope = out[names(model)[name]]
        assert slope.shape == array.shape
        for place in np.ndindex(array.shape):
            losses = []
            for change in (1e-5, -1e-5):
                moved = array.copy()
                moved[place] += change
                losses.append(float(f(batch | {name: moved})["loss"]))
            expected = (losses[0] - losses[1]) / 2e-5
            np.testing.assert_allclose(slope[place], expected, rtol=1e-7, atol=1e-9)


def test_names_of_gradients() -> None:
    text = """(float[N,3] x) => (float[N,3] y) <float[3] s = {1,2,3}, float[3] b = {0,1,2},
        float[3] m = {0,0,0}, float[3] v = {1,1,1}> { y = BatchNormalization(x, s, b, m, v) }"""
    model = gradients(parse(text), ["mse", "l1"])
    assert [str(value.name) for value in model.graph.inputs] == ["x", "label", "m", "v", "s", "b"]
    outputs = ["loss", "loss_0", "loss_1", "s_grad", "b_grad", "m_next", "v_next"]
    assert [str(value.name) for value in model.graph.outputs] == outputs
    assert names(model) == {"s": "s_grad", "b": "b_grad", "m": "m_next", "v": "v_next"}
    known = interface(model)
    assert (known.parameters, known.statistics) == (["s", "b"], ["m", "v"])
    assert (known.learning_rate, known.state, known.flat) == ("", [], [])


def test_the_mean_of_the_gradients_of_two_is_that_of_both() -> None:
    f = compile(gradients(with_weights(MLP), "cross-entropy", flat=True))
    whole = signs(60)
    halves = [
        {name: array[part] for name, array in whole.items()} for part in np.split(np.arange(60), 2)
    ]
    mean = np.mean([f(half)["gradients"] for half in halves], axis=0)
    np.testing.assert_allclose(f(whole)["gradients"], mean, rtol=1e-5, atol=1e-7)


def test_the_vector_is_in_the_order_of_the_names() -> None:
    model = gradients(with_weights(MLP), "cross-entropy", flat=True)
    known = interface(model)
    assert [(part.name, part.shape, part.offset) for part in known.flat] == [
        ("b0", [16], 0),
        ("b1", [2], 16),
        ("w0", [2, 16], 18),
        ("w1", [16, 2], 50),
    ]
    assert [str(value.name) for value in model.graph.inputs] == ["x", "label", "parameters"]
    assert names(model) == {"parameters": "gradients"}
    (vector,) = parameters(model).values()
    before = parameters(gradients(with_weights(MLP), "cross-entropy"))
    for name, array in parted(known, vector).items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_array_equal(joined(known, before), vector)


def kept_after(model: ir.Model, batches: list[Arrays]) -> Arrays:
    """Return what is kept after one call for each batch, each parameter by its name."""
    f, kept = compile(model), {}
    for batch in batches:
        out = f(kept | batch, learning_rate=0.01)
        kept = {old: out[new] for old, new in names(model).items()}
    known = interface(model)
    if known.flat:
        averages = parted(known, kept["parameters_average"])
        kept |= parted(known, kept["parameters"])
        kept |= {f"{name}_average": array for name, array in averages.items()}
    return kept


def assert_same_steps(model: ir.Model, loss: str, batches: list[Arrays], options: Any) -> None:
    """Assert that steps with a vector are those without."""
    apart, whole = (step(model, loss, flat=flat, **options) for flat in (False, True))
    assert interface(whole).parameters == ["parameters"]
    assert interface(whole).averages == {"parameters": "parameters_average"}
    found = kept_after(whole, batches)
    for name, value in kept_after(apart, batches).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_steps_with_a_vector(optimizer: str) -> None:
    """A loop and state of the shapes of parameters included."""
    options = {"optimizer": optimizer, "average": 0.5, "clip_norm": 0.1}
    assert_same_steps(with_weights(RNN), "mse", [sequences(5)] * 3, options)


@pytest.mark.parametrize("precision", [None, "float16"])
def test_everything_at_once(precision: str | None) -> None:
    """Also in mixed precision; there the parameters are those of adapters."""
    text = MLP.replace("z = Gemm(h,", "d = Dropout(h) z = Gemm(d,")
    options = {
        "optimizer": "adamw",
        "groups": Group("w0*", rate=0.5, optimizer="lion"),
        "no_decay": "*1*",
        "clip_norm": 0.1,
        "clip_value": 0.05,
        "dropout": 0.2,
        "accumulate": 2,
        "average": 0.9,
        "precision": precision,
    }
    model = with_weights(text)
    model = model if precision is None else lora(model, "w*", rank=2)
    assert_same_steps(model, "cross-entropy", [signs(20, seed) for seed in range(4)], options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda known: joined(known, {"w": np.zeros(2)}),
            "The vector joins 'b', 'w', but 'w' are given. Give an array for each of these.",
        ),
        (
            lambda known: joined(known, {"w": np.zeros((2, 2)), "b": np.zeros((2, 1))}),
            "'b' has shape [2, 1], but in the vector [2]. Give it that shape.",
        ),
        (
            lambda known: parted(known, np.zeros((2, 3))),
            "The vector has shape [2, 3], but the parameters are 6 numbers. Give a vector of shape "
            "[6].",
        ),
    ],
)
def test_what_fits_no_vector(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(interface(gradients(parse(DOUBLE), "cross-entropy", flat=True)))
    assert str(caught.value) == message


def test_parameters_of_two_types() -> None:
    model = parse("""(float[2] x) => (float[2] y)
        <float[2] w = {1, 1}, double[2] v = {1, 1}> {
        a = Mul(x, w)
        b = Cast<to = 11>(a)
        c = Mul(b, v)
        y = Cast<to = 1>(c)
    }""")
    with pytest.raises(ArgumentError) as caught:
        gradients(model, "mse", flat=True)
    assert str(caught.value) == (
        "flat=True joins all parameters, but 'v' is DOUBLE[2], and 'w' FLOAT[2]. Convert them, or "
        "name some with trainable=."
    )


def operators(model: ir.Model, kind: str) -> int:
    return Counter(node.op_type for node in walk(model.graph))[kind]


@pytest.mark.parametrize(
    ("trainable", "products"),
    [
        # Two products forward; back, one for each weight, and one between the layers.
        ("*", 5),
        (["w1", "b1"], 3),
        ("b1", 2),
        ("w0", 4),
    ],
)
def test_what_is_frozen_costs_nothing(trainable: Any, products: int) -> None:
    model = gradients(with_weights(MLP), cross_entropy(), trainable)
    assert operators(model, "Gemm") + operators(model, "MatMul") == products


def test_no_loop_back_for_what_comes_after_a_loop() -> None:
    model = with_weights(RNN)
    after = gradients(model, "mse", "wout")
    assert operators(after, "Loop") + operators(after, "Scan") == operators(after, "Loop") == 1
    (loop,) = (node for node in after.graph if node.op_type == "Loop")
    assert len(loop.outputs) == 1
    inside = gradients(model, "mse", "win")
    assert operators(inside, "Loop") + operators(inside, "Scan") == 2


def test_an_evaluation_reads_the_vector() -> None:
    one = step(with_weights(RNN), "mse", "sgd", flat=True)
    f, batch = compile(evaluation(with_weights(RNN), "mse", one)), sequences(4)
    out = compile(one)(batch, learning_rate=0.1)
    moved = out["parameters_next"]
    expected = compile(one)(batch, parameters=moved, learning_rate=0.1)["loss"]
    np.testing.assert_allclose(f(batch)["loss"], out["loss"], rtol=1e-6)
    np.testing.assert_allclose(f(batch, parameters=moved)["loss"], expected, rtol=1e-6)
    y = compile(export(with_weights(RNN), parted(interface(one), moved)))(x=batch["x"])["y"]
    np.testing.assert_allclose(y, f(batch, parameters=moved)["y"], rtol=1e-5)

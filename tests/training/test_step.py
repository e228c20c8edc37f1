"""Steps: what they train, update, leave alone and are called; models that learn with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from tests.judge import parse
from tests.training.models import MLP, RNN, Arrays, signs, with_weights

import whileback
from whileback.engines import compile
from whileback.errors import ArgumentError, UnsupportedError
from whileback.gradient import names
from whileback.gradient.memory.strategies import Memory
from whileback.training import OPTIMIZERS, adamw, cross_entropy, export, interface, mse, sgd, step

BATCH = """(float[N,3,4] x) => (float[N,3,4] y)
    <float[3] s = {1,2,3}, float[3] b = {0,1,2}, float[3] m = {1,1,1}, float[3] v = {2,2,2}> {
    y = BatchNormalization<epsilon = 0.001, momentum = 0.75 ATTRIBUTES>(x, s, b, m, v)
}"""


def run(one: ir.Model, batches: list[Arrays], rate: float, steps: int) -> list[float]:
    """Return the losses of some steps, on one batch after the other, by ONNX Runtime itself."""
    data = ir.to_proto(one).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    following, kept, losses = names(one), {}, []
    for index in range(steps):
        batch = batches[index % len(batches)]
        feeds = kept | batch | {interface(one).learning_rate: np.array(rate, np.float32)}
        out = dict(zip(outputs, session.run(None, feeds), strict=True))
        losses.append(float(out[interface(one).loss]))
        kept = {old: out[new] for old, new in following.items()}
    return losses


RATES = {
    "sgd": 1.0,
    "adam": 0.05,
    "adamw": 0.05,
    "adagrad": 0.3,
    "adadelta": 10.0,
    "rmsprop": 0.02,
    "lion": 0.01,
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_network_learns(optimizer: str) -> None:
    """Whether two numbers have the same sign, which no linear model tells."""
    one = step(with_weights(MLP), "cross-entropy", optimizer)
    losses = run(one, [signs(200)], RATES.get(optimizer, 0.1), 400)
    assert losses[0] > 0.6
    assert losses[-1] < 0.15


def test_a_loop_learns() -> None:
    """The sum of a sequence, times a half, whatever its length."""
    random = np.random.default_rng(1)
    model = with_weights(RNN)
    one = step(model, "mse", "adam", clip_norm=1.0)
    sequences = [random.uniform(-1, 1, (length, 64, 1)).astype("f") for length in (2, 4, 6)]
    losses = run(one, [{"x": x, "label": x.sum(0) / 2} for x in sequences], 0.01, 900)
    assert max(losses[:3]) > 0.3
    assert max(losses[-3:]) < 0.01


@pytest.mark.parametrize("memory", ["recompute", "checkpoint"])
def test_what_loops_keep(memory: Memory) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (7, 4, 1)).astype("f")
    feeds = {"x": x, "label": x.sum(0), "learning_rate": 0.1}
    expected = compile(step(with_weights(RNN), "mse", "sgd"))(feeds)
    out = compile(step(with_weights(RNN), "mse", "sgd", memory=memory))(feeds)
    for name, value in expected.items():
        np.testing.assert_allclose(out[name], value, rtol=1e-5, atol=1e-6)


def test_a_parameter_that_has_a_default_already() -> None:
    """An initializer that is an input in the model, as in old files."""
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    model.graph.inputs.append(model.graph.initializers["w"])
    f = compile(step(model, "mse", "sgd"))
    out = f(x=[1.0, 1.0], label=[0.0, 0.0], learning_rate=1.0)
    assert out["w_next"].tolist() == [0, 0]
    assert list(f.inputs) == ["x", "w", "label", "learning_rate"]


def test_the_model_stays_as_it_is() -> None:
    model = with_weights(RNN)
    before = ir.to_proto(model).SerializeToString()
    step(model, "mse", "adam")
    assert ir.to_proto(model).SerializeToString() == before


def test_names() -> None:
    one = step(with_weights(MLP), cross_entropy(label="y"), adamw())
    inputs = [str(value.name) for value in one.graph.inputs]
    weights = ["b1", "w1", "b0", "w0"]
    assert inputs[:2] == ["x", "y"]
    assert sorted(inputs[2:6]) == sorted(weights)
    assert inputs[6:8] == ["learning_rate", "steps"]
    state = [f"{name}_{part}" for name in inputs[2:6] for part in ("mean", "square")]
    assert inputs[8:] == state
    changed = [*inputs[2:6], "steps", *state]
    assert [str(value.name) for value in one.graph.outputs] == [
        "loss",
        *(f"{name}_next" for name in changed),
    ]
    assert names(one) == whileback.names(one) == {name: f"{name}_next" for name in changed}
    known = interface(one)
    assert (known.loss, known.learning_rate, known.statistics) == ("loss", "learning_rate", [])
    assert (known.parameters, known.state) == (inputs[2:6], ["steps", *state])


def test_types_and_shapes_stay() -> None:
    f = compile(step(with_weights(MLP), "cross-entropy", "adafactor"))
    for name in f.inputs:
        if f"{name}_next" in f.outputs:
            assert f.outputs[f"{name}_next"].dims == f.inputs[name].dims, name
            assert f.outputs[f"{name}_next"].dtype == f.inputs[name].dtype, name
    assert f.inputs["label"].text == "INT64[N]"


def test_names_that_are_taken() -> None:
    model = parse("""(float[2] loss, float[2] w_next) => (float[2] learning_rate)
        <float[1] w = {1}> {
        a = Mul(loss, w)
        learning_rate = Add(a, w_next)
    }""")
    one = step(model, mse(label="w_next"), sgd(momentum=0.5))
    assert [str(value.name) for value in one.graph.inputs] == [
        "loss",
        "w_next",
        "w",
        "learning_rate_1",
        "w_momentum",
    ]
    assert [str(value.name) for value in one.graph.outputs] == [
        "loss_1",
        "w_next_1",
        "w_momentum_next",
    ]
    assert names(one) == {"w": "w_next_1", "w_momentum": "w_momentum_next"}
    assert interface(one).loss == "loss_1"
    assert interface(one).learning_rate == "learning_rate_1"


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (None, {"w0", "b0", "w1", "b1"}),
        ("*", {"w0", "b0", "w1", "b1"}),
        ("w*", {"w0", "w1"}),
        (["w1", "b[1-9]"], {"w1", "b1"}),
    ],
)
def test_what_is_trained(patterns: Any, expected: set[str]) -> None:
    one = step(with_weights(MLP), "cross-entropy", "sgd", patterns)
    assert set(interface(one).parameters) == expected
    frozen = {"w0", "b0", "w1", "b1"} - expected
    assert frozen <= set(one.graph.initializers)
    assert not frozen & {str(value.name) for value in one.graph.inputs}


def test_what_is_trained_by_default() -> None:
    """No numbers, no bounds, nothing on which the loss does not depend; constants like others."""
    model = parse("""(float[2] x) => (float[2] y, float[2] z)
        <float[2] w = {1, 1}, float scale = {2}, float[1] low = {-1}, float[2] other = {1, 1},
         float[2] u = {1, 1}, int64[1] whole = {3}> {
        c = Constant<value_floats = [2.0, 3.0]>()
        e = Constant<value_float = 0.5>()
        h = Constant<value_float = 8.0>()
        i = Constant<value_floats = [4.0]>()
        a = Mul(x, w)
        k = Clip(a, e, h)
        s = Mul(k, scale)
        f = Add(s, low)
        g = Mul(f, i)
        y = Mul(g, c)
        z = Mul(x, other)
    }""")
    assert interface(step(model, mse("y"), "sgd")).parameters == ["w", "low", "c"]
    named = step(model, mse("y"), "sgd", ["scale", "[ci]"])
    assert interface(named).parameters == ["scale", "c", "i"]


def test_initializers_of_bodies_and_branches() -> None:
    model = parse("""(float[2] x, bool c) => (float[2] y) {
        y = If(c) <
            then_branch = t () => (float[2] p) <float[2] w = {1, 2}> { p = Mul(x, w) },
            else_branch = e () => (float[2] q) <float[2] w = {3, 4}> { q = Mul(x, w) }>
    }""")
    f = compile(step(model, mse(), "sgd"))
    then, other = "If/then_branch/w", "If/else_branch/w"
    assert f.defaults == {then, other}
    feeds = {"x": [1.0, 1.0], "label": [0.0, 0.0], "learning_rate": 1.0}
    out = f(feeds, c=True)
    np.testing.assert_allclose(out[f"{then}_next"], [0, 0])
    np.testing.assert_allclose(out[f"{other}_next"], [3, 4])


def test_weights_of_a_loss_are_not_trained() -> None:
    loss = cross_entropy(class_weights=[1, 2], label_smoothing=0.1)
    assert len(interface(step(with_weights(MLP), loss, "sgd")).parameters) == 4


@pytest.mark.parametrize("training", [False, True])
def test_running_statistics(training: bool) -> None:
    """The batch normalizes, and running statistics follow it."""
    text = BATCH.replace("ATTRIBUTES", ", training_mode = 1" if training else "")
    model = parse(text.replace("y = B", "y, m2, v2 = B") if training else text)
    one = step(model, mse(), "sgd")
    assert interface(one).parameters == ["s", "b"]
    assert interface(one).statistics == ["m", "v"]
    x = np.random.default_rng(0).normal(size=(5, 3, 4)).astype("f")
    out = compile(one)(x=x, label=np.zeros_like(x), learning_rate=0.0)
    mean, variance = x.mean((0, 2)), x.var((0, 2), ddof=0 if training else 1)
    np.testing.assert_allclose(out["m_next"], 0.75 + 0.25 * mean, rtol=1e-5)
    np.testing.assert_allclose(out["v_next"], 1.5 + 0.25 * variance, rtol=1e-5)
    standard = (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 0.001)
    y = standard * np.array([1, 2, 3], "f")[:, None] + np.array([0, 1, 2], "f")[:, None]
    np.testing.assert_allclose(out["loss"], (y**2).mean(), rtol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_statistics_that_stay(training: bool) -> None:
    """A step at inference: its loss is that of the model, its slope that of finite differences."""
    text = BATCH.replace("ATTRIBUTES", ", training_mode = 1" if training else "")
    model = parse(text.replace("y = B", "y, m2, v2 = B") if training else text)
    one = step(model, mse(), "sgd", statistics="running")
    assert (interface(one).parameters, interface(one).statistics) == (["s", "b"], [])
    f, random = compile(one), np.random.default_rng(0)
    x, label = (random.normal(size=(5, 3, 4)).astype("f") for _ in range(2))
    plain = parse(BATCH.replace("ATTRIBUTES", ""))
    y = compile(plain)(x=x)["y"]
    out = f(x=x, label=label, learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], ((y - label) ** 2).mean(), rtol=1e-5)
    tuned = export(model, {"s": out["s_next"], "b": out["b_next"]}).graph.initializers
    for name in ("m", "v"):
        kept, old = tuned[name].const_value, plain.graph.initializers[name].const_value
        np.testing.assert_array_equal(kept.numpy(), old.numpy())
    ends = [f(x=x, label=label, learning_rate=0.0, b=[d, 1, 2])["loss"] for d in (-1e-2, 1e-2)]
    np.testing.assert_allclose(0 - out["b_next"][0], (ends[1] - ends[0]) / 2e-2, rtol=1e-2)


def test_statistics_that_are_none() -> None:
    with pytest.raises(ArgumentError) as caught:
        step(parse(BATCH.replace("ATTRIBUTES", "")), mse(), "sgd", statistics="runing")  # type: ignore[arg-type]
    assert str(caught.value) == "statistics='runing' is unknown; did you mean 'running'?"


def test_slopes_through_the_statistics_of_a_batch() -> None:
    """What goes before the normalization: its slope is that of finite differences."""
    text = """(double[5,3] x) => (double[5,3] y) <double[3,3] w = {1,2,0, 0,1,1, 2,0,1},
        double[3] s = {1,2,3}, double[3] b = {0,1,2}, double[3] m = {1,1,1}, double[3] v = {2,2,2}>
        { a = MatMul(x, w) y = BatchNormalization(a, s, b, m, v) }"""
    f = compile(step(parse(text), mse(), "sgd", "w"))
    random = np.random.default_rng(0)
    feeds = {"x": random.normal(size=(5, 3)), "label": random.normal(size=(5, 3))}
    w = np.array([[1, 2, 0], [0, 1, 1], [2, 0, 1]], float)
    slope = w - f(feeds, learning_rate=1.0)["w_next"]

    def loss(change: np.ndarray) -> float:
        return float(f(feeds, w=w + change, learning_rate=0.0)["loss"])

    for place in np.ndindex(3, 3):
        change = np.zeros((3, 3))
        change[place] = 1e-5
        expected = (loss(change) - loss(-change)) / 2e-5
        np.testing.assert_allclose(slope[place], expected, rtol=1e-6, atol=1e-9)


def test_statistics_that_two_nodes_share() -> None:
    text = """(float[4,3] x) => (float[4,3] y) <float[3] s = {1,2,3}, float[3] b = {0,1,2},
        float[3] m = {0,0,0}, float[3] v = {1,1,1}> {
        a = BatchNormalization<momentum = 0.5>(x, s, b, m, v)
        y = BatchNormalization<momentum = 0.5>(a, s, b, m, v)
    }"""
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("f")
    out = compile(step(parse(text), mse(), "sgd"))(x=x, label=x, learning_rate=0.0)
    np.testing.assert_allclose(out["m_next"], x.mean(0) / 4 + np.array([0, 1, 2]) / 2, rtol=1e-4)


def test_statistics_inside_a_branch_stay() -> None:
    text = """(float[4,3] x, bool c) => (float[4,3] y) <float[3] s = {1,2,3}, float[3] b = {0,1,2},
        float[3] m = {0,0,0}, float[3] v = {1,1,1}> {
        y = If(c) <
            then_branch = t () => (float[4,3] p) { p = BatchNormalization(x, s, b, m, v) },
            else_branch = e () => (float[4,3] q) { q = Identity(x) }>
    }"""
    known = interface(step(parse(text), mse(), "sgd"))
    assert (known.parameters, known.statistics) == (["s", "b"], [])


def test_statistics_of_unknown_rank() -> None:
    text = """(float[4] x, int64[K] shape) => (float y) <float[3] s = {1,2,3}, float[3] b = {0,1,2},
        float[3] m = {0,0,0}, float[3] v = {1,1,1}> {
        a = Reshape(x, shape)
        n = BatchNormalization(a, s, b, m, v)
        y = ReduceSum<keepdims = 0>(n)
    }"""
    with pytest.raises(UnsupportedError) as caught:
        step(parse(text), mse(), "sgd")
    assert str(caught.value) == (
        "Node 'BatchNormalization' (BatchNormalization) reads a tensor of unknown rank, so that "
        "nothing tells over which axes its statistics go. Give that input a shape."
    )


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["w*", "bias"],
            "trainable= has 'bias', which fits none of the names of tensors that can be trained; "
            "there are 4: 'w0', 'b0', 'w1', 'b1'",
        ),
        (
            [],
            "The loss depends on no float tensor of model 'model' that could be trained. Name some "
            "with trainable=, or make inputs initializers.",
        ),
    ],
)
def test_nothing_to_train(patterns: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(with_weights(MLP), "cross-entropy", "sgd", patterns)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"no_decay": "b9"},
            "no_decay= has 'b9', which fits none of the names of tensors that can be trained; did "
            "you mean 'b1' or 'b0'?",
        ),
        ({"clip_norm": 0}, "clip_norm=0 is not above 0. Give a number above 0."),
        ({"clip_value": -1.0}, "clip_value=-1.0 is not above 0. Give a number above 0."),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(with_weights(MLP), "cross-entropy", "adamw", **options)
    assert str(caught.value) == message


def test_parameters_of_16_bits() -> None:
    model = parse("(float16[2] x) => (float16[2] y) <float16[2] w = {1, 1}> { y = Mul(x, w) }")
    with pytest.raises(UnsupportedError) as caught:
        step(model, "mse", "sgd")
    assert str(caught.value) == (
        "'w' is FLOAT16[2]: steps are taken in FLOAT or DOUBLE, since 16 bits lose small changes. "
        "Say precision='float16', which keeps parameters in FLOAT, or freeze these with trainable=."
    )


def test_a_model_that_is_no_step() -> None:
    with pytest.raises(ArgumentError) as caught:
        interface(parse("(float x) => (float y) { y = Identity(x) }"))
    assert str(caught.value) == (
        "Model 'model' is no training step: its metadata lack 'whileback.training'. Make one with "
        "whileback.training.step()."
    )


@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (
            "model.onnx",
            "mse",
            "model= is 'str', but a step is made of an onnx_ir.Model. Read a file with "
            "whileback.load(path), a ModelProto with onnx_ir.from_proto(model).",
        ),
        (
            None,
            None,
            "loss=None is unknown; there are 9: 'cross-entropy', 'binary-cross-entropy', 'nll', …",
        ),
    ],
)
def test_something_else_than_a_model_or_a_loss(model: Any, loss: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(model or with_weights(MLP), loss, "sgd")
    assert str(caught.value) == message

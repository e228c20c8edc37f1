"""Losses: values and slopes are those of PyTorch, as recorded; slopes fit finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError
from whileback.graph.builder import Builder
from whileback.graph.names import Names
from whileback.graph.normalize import normalize
from whileback.graph.shapes import Shapes
from whileback.training import (
    LOSSES,
    Loss,
    binary_cross_entropy,
    cosine,
    cross_entropy,
    huber,
    interface,
    kl,
    l1,
    mse,
    nll,
    output,
    sgd,
    step,
)
from whileback.training.attaching import attach

DATA = np.load(Path(__file__).parent / "data" / "losses.npz")
WEIGHTS = DATA["w"].tolist()
CASES: dict[str, tuple[Loss, str]] = {
    "cross-entropy": (cross_entropy(), "y"),
    "cross-entropy-weights": (cross_entropy(class_weights=WEIGHTS), "y"),
    "cross-entropy-ignore": (cross_entropy(class_weights=WEIGHTS, ignore_index=1), "y"),
    "cross-entropy-smooth": (cross_entropy(label_smoothing=0.1), "y"),
    "cross-entropy-all": (
        cross_entropy(class_weights=WEIGHTS, ignore_index=1, label_smoothing=0.1),
        "y",
    ),
    "cross-entropy-sum": (
        cross_entropy(class_weights=WEIGHTS, label_smoothing=0.1, reduction="sum"),
        "y",
    ),
    "nll": (nll(class_weights=WEIGHTS, ignore_index=0), "y"),
    "binary-cross-entropy": (binary_cross_entropy(), "p"),
    "mse": (mse(), "t"),
    "mse-sum": (mse(reduction="sum"), "t"),
    "l1": (l1(), "t"),
    "huber": (huber(delta=0.7), "t"),
    "kl": (kl(), "q"),
    "kl-mean": (kl(reduction="mean"), "q"),
    "cosine": (cosine(), "t"),
}


def model(makes: str = "") -> ir.Model:
    """Return x + w for zeros w, handed on by operators."""
    zeros = ",".join("0" * 24)
    text = "(double[6,4] x) => (double[6,4] z) <double[6,4] w = {%s}> { %s }"
    return parse(text % (zeros, "z = Add(x, w)" if not makes else f"a = Add(x, w) {makes}"))


def with_loss(plain: ir.Model, *losses: Loss) -> ir.Model:
    """Return the model with its losses as outputs, and nothing of a step."""
    result = normalize(plain)
    shapes = Shapes(result.graph.opset_imports)
    op = Builder(result.graph, Names.of(result.graph), shapes)
    result.graph.outputs.append(attach(op, losses).loss)
    return result


def one_step(plain: ir.Model, loss: Loss, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss, and the slope with respect to w: what descent at rate 1 takes off."""
    return one_step_of(plain, loss, DATA["x"], DATA[label])


def one_step_of(
    plain: ir.Model, loss: Loss, x: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for other data."""
    out = compile(step(plain, loss, "sgd"))(x=x, label=label, learning_rate=1.0)
    return out["loss"], -out["w_next"]


def makes(name: str) -> str:
    """NLL and KL read log-probabilities."""
    return "z = LogSoftmax(a)" if CASES[name][0].reads == "log-probabilities" else ""


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str) -> None:
    loss, label = CASES[name]
    value, slope = one_step(model(makes(name)), loss, label)
    np.testing.assert_allclose(value, DATA[f"{name}.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA[f"{name}.slope"], atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_finite_differences(name: str) -> None:
    loss, label = CASES[name]
    inputs = {"x": DATA["x"], "label": DATA[label]}
    assert_gradient(with_loss(model(makes(name)), loss), ["loss"], ["w"], inputs)


def test_every_loss_is_recorded() -> None:
    recorded = {key.removesuffix(".value") for key in DATA.files if key.endswith(".value")}
    assert recorded == set(CASES)
    assert {loss.name for loss, _ in CASES.values()} | {"output"} == set(LOSSES)


def test_probabilities_are_told_from_logits() -> None:
    for operator in ("Softmax", "LogSoftmax"):
        for moves in ("", "z = Reshape(b, s)", "z = Identity(b)"):
            target = "b" if moves else "z"
            text = f"{target} = {operator}(a) {moves}"
            plain = model("s = Constant<value_ints = [6, 4]>() " + text)
            value, slope = one_step(plain, cross_entropy(), "y")
            np.testing.assert_allclose(value, DATA["cross-entropy.value"], rtol=1e-9)
            np.testing.assert_allclose(slope, DATA["cross-entropy.slope"], atol=1e-9)


@pytest.mark.parametrize(("loss", "name"), [(nll(), "cross-entropy"), (kl(), "kl")])
def test_logarithms_of_probabilities(loss: Loss, name: str) -> None:
    value, slope = one_step(model("z = Softmax(a)"), loss, CASES[name][1])
    np.testing.assert_allclose(value, DATA[f"{name}.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA[f"{name}.slope"], atol=1e-9)


@pytest.mark.parametrize(
    "text",
    ["z = Sigmoid(a)", "b = Sigmoid(a) c = Transpose(b) z = Transpose(c)"],
)
def test_probabilities_of_each_element(text: str) -> None:
    value, slope = one_step(model(text), binary_cross_entropy(), "p")
    np.testing.assert_allclose(value, DATA["binary-cross-entropy.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA["binary-cross-entropy.slope"], atol=1e-9)


BRANCH = """t = Constant<value = bool {1}>()
    b = If(t) < then_branch = g () => (double[6,4] p) { p = %s(a) },
                else_branch = h () => (double[6,4] q) { q = Identity(a) }>
    z = Identity(b)"""
WRITTEN_OUT = """axes = Constant<value_ints = [%d]>()
    top = ReduceMax(a, axes)
    u = Sub(a, top)
    e = Exp(u)
    sums = ReduceSum<keepdims = 0>(e, axes)
    column = Unsqueeze(sums, axes)
    size = Shape(a)
    every = Expand(column, size)
    z = Div(e, every)"""
LOOP = """n = Constant<value_int = 6>()
    t = Constant<value = bool {1}>()
    z = Loop(n, t) <body = g (int64 i, bool c) => (bool d, double[4] r) {
        d = Identity(c) e = Gather(a, i) r = %s(e) }>"""


@pytest.mark.parametrize("text", [BRANCH, LOOP])
@pytest.mark.parametrize(
    ("maker", "name"),
    [
        ("Softmax", "cross-entropy-all"),
        ("LogSoftmax", "cross-entropy-all"),
        ("Softmax", "kl"),
        ("Sigmoid", "binary-cross-entropy"),
    ],
)
def test_probabilities_made_in_branches_and_loops(text: str, maker: str, name: str) -> None:
    loss, label = CASES[name]
    value, slope = one_step(model(text % maker), loss, label)
    np.testing.assert_allclose(value, DATA[f"{name}.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA[f"{name}.slope"], atol=1e-9)


def test_means_of_probabilities() -> None:
    """Of which no logits are known, as of those of several steps."""
    zeros = ",".join("0" * 24)
    plain = parse(f"""(double[6,4] x) => (double[6,1] z) <double[6,4] w = {{{zeros}}}> {{
        axes = Constant<value_ints = [1]>() a = Add(x, w) b = Sigmoid(a) z = ReduceMean(b, axes)
    }}""")
    label = DATA["p"][:, :1]
    value, _ = one_step_of(plain, binary_cross_entropy(), DATA["x"], label)
    mean = (1 / (1 + np.exp(-DATA["x"]))).mean(1, keepdims=True)
    expected = -(label * np.log(mean) + (1 - label) * np.log(1 - mean)).mean()
    np.testing.assert_allclose(value, expected, rtol=1e-9)


def test_probabilities_of_0_and_1() -> None:
    """Far from the label, inside of a branch, the slope is 0 rather than no number."""
    for maker, loss in (("Sigmoid", binary_cross_entropy()), ("Softmax", cross_entropy())):
        x = np.tile([1e4, -1e4, 0, 0], (6, 1))
        label = np.zeros((6, 4)) if maker == "Sigmoid" else np.full(6, 1)
        value, slope = one_step_of(model(BRANCH % maker), loss, x, label)
        assert np.isfinite(value) and np.isfinite(slope).all()


@pytest.mark.parametrize(
    ("text", "loss", "said"),
    [
        ("", cross_entropy(), "cross-entropy of 'z', taken as logits"),
        (
            "z = Softmax(a)",
            cross_entropy(),
            "cross-entropy of 'a', the logits of 'z', which node 'Softmax' (Softmax) makes",
        ),
        (
            WRITTEN_OUT % 1,
            cross_entropy(),
            "cross-entropy of 'u', the logits of 'z', which node 'Div' (Div) makes",
        ),
        ("", nll(), "nll of 'z', taken as log-probabilities"),
        (
            "z = Sigmoid(a)",
            binary_cross_entropy(),
            "binary-cross-entropy of 'a', the logits of 'z', which node 'Sigmoid' (Sigmoid) makes",
        ),
        ("z = Sigmoid(a)", mse(), "mse of 'z' as it is"),
        (
            BRANCH % "Sigmoid",
            binary_cross_entropy(),
            "binary-cross-entropy of 'z', made of probabilities of node 'Sigmoid' (Sigmoid): its "
            "logarithm is read",
        ),
    ],
)
def test_what_is_read_is_said(text: str, loss: Loss, said: str) -> None:
    assert interface(step(model(text), loss, "sgd")).losses == {"loss": said}


def test_a_softmax_that_is_written_out() -> None:
    """Exporters of JAX and TensorFlow write one so; along the examples it is none."""
    value, slope = one_step_of(model(WRITTEN_OUT % 1), cross_entropy(), DATA["x"], DATA["y"])
    np.testing.assert_allclose(value, DATA["cross-entropy.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA["cross-entropy.slope"], atol=1e-9)
    with pytest.raises(ArgumentError, match=r"loss 'binary-cross-entropy' reads 'z', which node "):
        step(model(WRITTEN_OUT % 1), binary_cross_entropy(), "sgd")


@pytest.mark.parametrize("shape", ["N,3,4,2", "N,3,2,4", "4,N,3,2"])
@pytest.mark.parametrize("makes", ["Identity", "Softmax"])
def test_axis_of_classes(shape: str, makes: str) -> None:
    """The axis is said, or that of Softmax; the labels lack it."""
    axis = shape.split(",").index("4")
    attributes = f"<axis = {axis}>" if makes == "Softmax" else ""
    plain = parse(
        f"(float[{shape}] x) => (float[{shape}] z) <float[1] w = {{1}}> "
        f"{{ a = Mul(x, w) z = {makes}{attributes}(a) }}"
    )
    loss = cross_entropy(axis=None if makes == "Softmax" else axis)
    f = compile(step(plain, loss, "sgd"))
    sizes = [5 if dim == "N" else int(dim) for dim in shape.split(",")]
    random = np.random.default_rng(0)
    x = random.normal(size=sizes).astype("f")
    labels = random.integers(0, 4, [size for i, size in enumerate(sizes) if i != axis])
    log = x - np.log(np.exp(x).sum(axis, keepdims=True))
    expected = -np.take_along_axis(log, np.expand_dims(labels, axis), axis).mean()
    out = f(x=x, label=labels, learning_rate=0.0)
    np.testing.assert_allclose(out["loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["cross-entropy-all", "cross-entropy-sum", "nll"])
def test_labels_of_two_axes(name: str) -> None:
    """Settings hold for them as for as many labels in a row."""
    log = "l = LogSoftmax(a)" if CASES[name][0].reads == "log-probabilities" else "l = Identity(a)"
    makes = f"""{log}
        s = Constant<value_ints = [2, 3, 4]>()
        r = Reshape(l, s)
        z = Transpose<perm = [0, 2, 1]>(r)"""
    plain = model(makes)
    plain.graph.outputs[0].shape = ir.Shape([2, 4, 3])
    value, slope = one_step_of(plain, CASES[name][0], DATA["x"], DATA["y"].reshape(2, 3))
    np.testing.assert_allclose(value, DATA[f"{name}.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA[f"{name}.slope"], atol=1e-9)


@pytest.mark.parametrize("name", ["cross-entropy-ignore", "cross-entropy-all"])
def test_a_number_below_0_is_ignored(name: str) -> None:
    smoothing = 0.1 if name.endswith("all") else 0.0
    loss = cross_entropy(class_weights=WEIGHTS, ignore_index=-100, label_smoothing=smoothing)
    labels = np.where(DATA["y"] == 1, -100, DATA["y"])
    value, slope = one_step_of(model(), loss, DATA["x"], labels)
    np.testing.assert_allclose(value, DATA[f"{name}.value"], rtol=1e-9)
    np.testing.assert_allclose(slope, DATA[f"{name}.slope"], atol=1e-9)


@pytest.mark.parametrize("loss", [cross_entropy(), nll(), cross_entropy(ignore_index=-100)])
@pytest.mark.parametrize("number", [-1, -4, 4])
def test_numbers_that_no_class_has(loss: Loss, number: int) -> None:
    """Those below 0 do not count from the last class."""
    f = compile(step(model("z = LogSoftmax(a)"), loss, "sgd"))
    with pytest.raises(EngineError, match="Out of range value in index"):
        f(x=DATA["x"], label=np.array([0, 1, number, 3, 2, 1]), learning_rate=1.0)


@pytest.mark.parametrize("loss", [cross_entropy(), nll(), cross_entropy(label_smoothing=0.1)])
def test_numbers_that_no_class_has_on_xla(loss: Loss) -> None:
    """The loss is no number, which ends a run."""
    f = compile(step(model("z = LogSoftmax(a)"), loss, "sgd"), engine="xla")
    for number in (-1, -4, 4, 2**32):
        labels = np.array([0, 1, number, 3, 2, 1])
        assert np.isnan(f(x=DATA["x"], label=labels, learning_rate=1.0)["loss"])


def test_a_loss_that_was_not_called() -> None:
    with pytest.raises(
        ArgumentError, match=r"^loss=<function mse at .*> is unknown; there are 9: "
    ):
        step(model(), mse, "sgd")  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", [cross_entropy, nll])
def test_class_weights_that_are_none(loss: Callable[..., Loss]) -> None:
    for wrong in (1, [[1.0]], ["a"], [-1.0, 1.0], [np.inf], [True]):
        with pytest.raises(ArgumentError) as caught:
            loss(class_weights=wrong)
        assert str(caught.value) == (
            f"class_weights={wrong!r} is no list of numbers from 0, one for each class, such as "
            "[1, 2.5]. Give one."
        )
    with pytest.raises(ArgumentError) as caught:
        step(model("z = LogSoftmax(a)"), loss("z", class_weights=[1.0, 2.0]), "sgd")
    assert str(caught.value).endswith(" has 4 classes. Give one for each.") and str(
        caught.value
    ).startswith("class_weights=[1.0, 2.0] has 2 numbers, but ")


def test_an_output_of_unknown_rank() -> None:
    loss = cross_entropy(class_weights=WEIGHTS, ignore_index=1, label_smoothing=0.1)
    text = """(double[6,4] x, int64[K] s) => (double z) <double[6,4] w = {%s}> {
        a = Add(x, w) z = Reshape(a, s) }"""
    plain = parse(text % ",".join("0" * 24))
    plain.graph.outputs[0].shape = None
    f = compile(step(plain, loss, "sgd"))
    out = f(x=DATA["x"], s=[6, 4], label=DATA["y"], learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], DATA["cross-entropy-all.value"], rtol=1e-9)
    np.testing.assert_allclose(-out["w_next"], DATA["cross-entropy-all.slope"], atol=1e-9)


def test_several_with_weights() -> None:
    plain = parse("""(double[6,4] x) => (double[6,4] z, double[6,4] r) <double[1] w = {1}> {
        z = Mul(x, w) r = Tanh(z) }""")
    losses = [cross_entropy("z", "y"), mse("r", "t", 0.5), l1("x", "t", 2)]
    f = compile(step(plain, losses, "sgd"))
    out = f(x=DATA["x"], y=DATA["y"], t=DATA["t"], learning_rate=1.0)
    parts = [out[f"loss_{index}"] for index in range(3)]
    far = DATA["x"] - DATA["t"]
    expected = [
        DATA["cross-entropy.value"],
        0.5 * ((np.tanh(DATA["x"]) - DATA["t"]) ** 2).mean(),
        2 * np.abs(far).mean(),
    ]
    np.testing.assert_allclose(parts, expected, rtol=1e-9)
    np.testing.assert_allclose(out["loss"], sum(expected), rtol=1e-9)


def test_the_same_loss_twice() -> None:
    f = compile(step(model(), [mse(), mse()], "sgd"))
    out = f(x=DATA["x"], label=DATA["t"], learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], 2 * DATA["mse.value"])
    np.testing.assert_allclose(-out["w_next"], 2 * DATA["mse.slope"])


def test_a_value_of_the_model_as_label() -> None:
    """An autoencoder is compared with its own input."""
    f = compile(step(model(), mse(label="x"), sgd()))
    out = f(x=DATA["x"], w=DATA["t"], learning_rate=0.0)
    np.testing.assert_allclose(out["loss"], (DATA["t"] ** 2).mean())
    assert set(f.inputs) == {"x", "learning_rate", "w"}


def test_an_output_that_is_a_loss() -> None:
    f = compile(step(model(), output(weight=3), sgd()))
    out = f(x=DATA["x"], learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], 3 * DATA["x"].sum())
    np.testing.assert_allclose(out["w_next"], -3)


def test_where_slopes_could_be_no_numbers() -> None:
    """At zero vectors, equal values and huge logits."""
    zeros, far = np.zeros((6, 4)), np.full((6, 4), 1e4)
    cases: list[tuple[Loss, np.ndarray, np.ndarray]] = [
        (cosine(), zeros, zeros),
        (l1(), zeros, zeros),
        (binary_cross_entropy(), far, zeros),
        (binary_cross_entropy(), -far, zeros),
        (cross_entropy(label_smoothing=0.1), far, np.zeros(6, np.int64)),
    ]
    for loss, x, label in cases:
        out = compile(step(model(), loss, "sgd"))(x=x, label=label, learning_rate=1.0)
        assert np.isfinite(out["loss"]) and np.isfinite(out["w_next"]).all(), loss.name


def test_binary_cross_entropy_of_logits_that_are_0() -> None:
    f = compile(step(model(), binary_cross_entropy(reduction="sum"), "sgd"))
    out = f(x=np.zeros((6, 4)), label=np.ones((6, 4)), learning_rate=1.0)
    np.testing.assert_allclose(out["loss"], 24 * np.log(2))
    np.testing.assert_allclose(out["w_next"], 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: step(model(), "mze", "sgd"),
            "loss='mze' is unknown; did you mean 'mse'?",
        ),
        (lambda: step(model(), [], "sgd"), "loss= is empty; give a name or a loss."),
        (
            lambda: step(model("z = Sigmoid(a)"), "cross-entropy", "sgd"),
            "loss 'cross-entropy' reads 'z', which node 'Sigmoid' (Sigmoid) makes: probabilities "
            "of each element for itself. Use 'binary-cross-entropy', or name another output.",
        ),
        (
            lambda: step(model("z = Softmax(a)"), "binary-cross-entropy", "sgd"),
            "loss 'binary-cross-entropy' reads 'z', which node 'Softmax' (Softmax) makes: "
            "probabilities of all classes together. Use 'cross-entropy', or name another output.",
        ),
        (
            lambda: step(model(), mse("zz"), "sgd"),
            "loss 'mse' names output 'zz', but model 'model' has no such value; did you mean 'z'?",
        ),
        (
            lambda: step(parse("(float[2] x) => (bool[2] b) { b = Greater(x, x) }"), "mse", "sgd"),
            "loss 'mse' names no output, and model 'model' has 0 of floats among 'b'. Say which "
            "with output= (on the command line mse:OUTPUT).",
        ),
        (
            lambda: step(
                parse("(float[2] x) => (bool[2] b) { b = Greater(x, x) }"), mse("b"), "sgd"
            ),
            "loss 'mse' names output 'b', which is BOOL[2]: only floats have a loss. Name another "
            "output.",
        ),
        (
            lambda: step(model(), cross_entropy(label="x"), "sgd"),
            "loss 'cross-entropy' compares with 'x', which is DOUBLE[6,4], but needs numbers of "
            "classes, INT64. Name another one with label=.",
        ),
        (
            lambda: step(parse("(int64[2] y, float[2] x) => (float[2] z) <float[1] w = {1}>"
                               "{ z = Mul(x, w) }"), mse(label="y"), "sgd"),
            "loss 'mse' compares with 'y', which is INT64[2], but needs floats. Name another one "
            "with label=.",
        ),
        (
            lambda: step(model(), cross_entropy(axis=2), "sgd"),
            "loss 'cross-entropy' has its classes along axis 2, but 'z' is DOUBLE[6,4]. Give an "
            "axis with axis=, or name another output.",
        ),
        (
            lambda: cross_entropy(label_smoothing=2),
            "cross_entropy(label_smoothing=2) is not between 0 and 1. Give a number between them.",
        ),
        (lambda: huber(delta=0), "huber(delta=0) is not above 0. Give a number above 0."),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("make", [cross_entropy, nll, binary_cross_entropy, mse, l1, huber, cosine])
def test_unknown_reductions(make: Callable[..., Loss]) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(reduction="none")
    expected = "reduction='none' is unknown; there are 2: 'mean', 'sum'"
    assert str(caught.value) == expected


def test_a_loss_is_a_value() -> None:
    assert replace(mse(), output="z").output == "z"

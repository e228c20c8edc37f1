import numpy as np
import pytest
from tests.gradient.rules.rnn.layers import judge, layer
from tests.judge import assert_gradient, parse

from whileback.checking.twin import float64_twin
from whileback.engines import compile
from whileback.gradient import vjp
from whileback.graph.scopes import walk


@pytest.mark.parametrize("given", ["", "Bhc", "P", "BhcP"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_inputs_and_directions(direction: str, given: str) -> None:
    judge("LSTM", given, direction=direction, second_order=len(given) != 3)


@pytest.mark.parametrize("given", ["Bhc", "P"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths(direction: str, given: str) -> None:
    judge("LSTM", given, direction=direction, lengths=[2, 4, 1], second_order=given == "P")


def test_a_sequence_of_no_steps() -> None:
    """ONNX Runtime gives it zeros as last states: no cotangent reaches its initial ones."""
    text = layer("LSTM", "hcn", batch=2)
    model = vjp(parse(text), ["Yh", "Yc"], ["h", "c"])
    rng = np.random.default_rng(0)
    feeds = {
        str(value.name): rng.normal(size=value.shape.numpy()).astype(np.float32)
        for value in model.graph.inputs
        if value.shape.is_static()
    }
    feeds["n"] = np.array([0, 4], np.int32)
    feeds |= dict.fromkeys(("Yh_grad", "Yc_grad"), np.ones((1, 2, 3), np.float32))
    results = compile(model, threads=1)(feeds)
    for name in ("Yh", "Yc", "h_grad", "c_grad"):
        assert not results[name][:, 0].any()
        assert results[name][:, 1].all()


@pytest.mark.parametrize("kind", ["symbols", "unknown"])
def test_shapes(kind: str) -> None:
    judge("LSTM", kind=kind)
    judge("LSTM", "BcP", kind=kind, lengths=[4, 2, 3], second_order=False)


@pytest.mark.parametrize("outputs", ["Y", "Yh", "Yc", "Y Yc"])
def test_outputs(outputs: str) -> None:
    judge("LSTM", outputs=outputs, second_order=False)
    judge("LSTM", "P", outputs=outputs, direction="reverse", lengths=[1, 4, 2], second_order=False)


@pytest.mark.parametrize(
    "attributes",
    [
        "input_forget = 1",
        'activations = ["HardSigmoid", "Elu", "Softsign"], activation_alpha = [0.3, 0.7],'
        "activation_beta = [0.4]",
    ],
)
@pytest.mark.parametrize("given", ["Bc", "P"])
def test_attributes(attributes: str, given: str) -> None:
    judge("LSTM", given, attributes)


def test_clip() -> None:
    judge("LSTM", "BP", "clip = 0.7", seed=1)


def test_a_single_step() -> None:
    judge("LSTM", "BhcP", steps=1, batch=1, direction="bidirectional")
    model = vjp(parse(layer("LSTM", steps=1)), ["Y"], ["X"])
    assert not [node for node in walk(model.graph) if node.op_type == "Scan"]


def test_forward_stays_fused_and_the_bodies_small() -> None:
    model = vjp(parse(layer("LSTM", kind="symbols")), ["Y"], ["X", "W", "R", "B"])
    nodes = list(walk(model.graph))
    assert [node.op_type for node in nodes].count("LSTM") == 1
    bodies = [
        [inner.op_type for inner in node.attributes["body"].as_graph()]
        for node in nodes
        if node.op_type == "Scan"
    ]
    assert bodies == [["Mul", "Add"], ["Add", "Mul", "Add", "Concat", "Mul", "MatMul", "Mul"]]


def test_what_is_past_the_end_does_not_matter() -> None:
    """Not even if it is not a number."""
    model = vjp(parse(layer("LSTM", "Bn")), ["Y", "Yc"], ["X", "W", "R", "B"])
    rng = np.random.default_rng(0)
    feeds = {
        str(value.name): rng.normal(size=value.shape.numpy()).astype(np.float32)
        for value in model.graph.inputs
        if value.shape.is_static()
    }
    feeds["n"] = np.array([4, 2, 3], np.int32)
    feeds |= {"Y_grad": np.ones((4, 1, 3, 3), np.float32), "Yc_grad": feeds["W"][:, :3, [0, 1, 0]]}
    want = compile(model, threads=1)(feeds)
    for name, steps in (("X", feeds["X"]), ("Y_grad", feeds["Y_grad"][:, 0])):
        steps[2:, 1] = steps[3:, 2] = np.nan
        assert np.isnan(feeds[name]).any()
    got = compile(model, threads=1)(feeds)
    for name in ("X_grad", "W_grad", "R_grad", "B_grad"):
        np.testing.assert_array_equal(got[name], want[name])
    assert not got["X_grad"][2:, 1].any()


def test_batch_first() -> None:
    """ONNX Runtime refuses `layout=1`: its gradient is that of the other layout, transposed."""
    text = layer("LSTM", "Bhc", direction="bidirectional")
    first = text.replace("hidden_size", "layout = 1, hidden_size")
    first = first.replace("[4,3,2] X", "[3,4,2] X").replace("[2,3,3]", "[3,2,3]")
    names = ["X", "W", "R", "B", "h", "c"]
    models = [vjp(parse(each), ["Y", "Yh", "Yc"], names) for each in (text, first)]
    plain, swapped = (
        compile(float64_twin(model), optimization="disabled", threads=1) for model in models
    )
    rng = np.random.default_rng(0)
    shapes = {"X": (4, 3, 2), "W": (2, 12, 2), "R": (2, 12, 3), "B": (2, 24)}
    shapes |= dict.fromkeys(("h", "c", "Yh_grad", "Yc_grad"), (2, 3, 3))
    feeds = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    feeds["Y_grad"] = rng.normal(size=(4, 2, 3, 3))
    moved = {
        name: value.swapaxes(0, 1) if name in ("X", "h", "c", "Yh_grad", "Yc_grad") else value
        for name, value in feeds.items()
    }
    moved["Y_grad"] = feeds["Y_grad"].transpose(2, 0, 1, 3)
    want, got = plain(feeds), swapped(moved)
    for name in names:
        gradient = got[f"{name}_grad"]
        gradient = gradient.swapaxes(0, 1) if name in ("X", "h", "c") else gradient
        np.testing.assert_allclose(gradient, want[f"{name}_grad"], rtol=1e-12, atol=1e-12)


LOOP = """(float[5,2,2] xs, float[1,2,3] h0, float[1,2,3] c0, float[1,12,2] W, float[1,12,3] R)
  => (float[5,1,1,2,3] Ys, float[1,2,3] c) {
  T = Constant <value_int = 5> ()
  zero = Constant <value_ints = [0]> ()
  h, c, Ys = Loop (T, , h0, c0) <body = b
    (int64 i, bool go, float[1,2,3] h1, float[1,2,3] c1)
      => (bool on, float[1,2,3] h2, float[1,2,3] c2, float[1,1,2,3] Y) {
    on = Identity (go)
    x = Gather (xs, i)
    X = Unsqueeze (x, zero)
    Y, h2, c2 = LSTM <hidden_size = 3> (X, W, R, "", "", h1, c1)
  }>
}"""

BRANCH = """(bool take, float[3,2,2] X, float[1,12,2] W, float[1,12,3] R, float[1,2,3] first)
  => (float[1,2,3] s) {
  s = If (take) <
    then_branch = yes () => (float[1,2,3] a) { "", a = LSTM <hidden_size = 3> (X, W, R) },
    else_branch = no () => (float[1,2,3] b) { b = Neg (first) }
  >
}"""


def test_in_a_loop() -> None:
    assert_gradient(LOOP, ["Ys", "c"], ["xs", "h0", "c0", "W", "R"], elements=6)


@pytest.mark.parametrize("take", [True, False])
def test_in_a_branch(take: bool) -> None:
    """Conformance case H8; the node has no output Y before it is differentiated."""
    inputs = {"take": np.array(take)}
    assert_gradient(BRANCH, ["s"], ["X", "W", "R", "first"], inputs, elements=6)


def test_the_model_handed_in_keeps_its_outputs() -> None:
    model = parse(layer("LSTM", outputs="Yc"))
    vjp(model, ["Yc"], ["X"])
    (node,) = (each for each in model.graph if each.op_type == "LSTM")
    assert [output.name for output in node.outputs] == ["", "", "Yc"]

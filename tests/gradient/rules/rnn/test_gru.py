import pytest
from tests.gradient.rules.rnn.layers import judge, layer
from tests.judge import parse

from whileback.gradient import vjp
from whileback.graph.scopes import walk

LINEAR = "linear_before_reset = 1"


@pytest.mark.parametrize("attributes", ["", LINEAR])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_lengths(direction: str, attributes: str) -> None:
    judge("GRU", "Bh", attributes, direction=direction, second_order=direction == "reverse")
    judge("GRU", "", attributes, direction=direction, lengths=[2, 4, 1], second_order=False)


@pytest.mark.parametrize("attributes", ["", LINEAR])
def test_second_order_with_lengths(attributes: str) -> None:
    judge("GRU", "Bh", attributes, direction="bidirectional", lengths=[3, 4, 1])


@pytest.mark.parametrize("attributes", ["", LINEAR])
@pytest.mark.parametrize("kind", ["symbols", "unknown"])
def test_shapes(kind: str, attributes: str) -> None:
    judge("GRU", "Bh", attributes, kind=kind)


@pytest.mark.parametrize("attributes", ["", LINEAR])
@pytest.mark.parametrize("outputs", ["Y", "Yh"])
def test_outputs(outputs: str, attributes: str) -> None:
    judge("GRU", "Bh", attributes, outputs=outputs, second_order=False)


@pytest.mark.parametrize("linear", ["", f", {LINEAR}"])
def test_attributes(linear: str) -> None:
    activations = 'activations = ["HardSigmoid", "ScaledTanh"], activation_alpha = [0.3, 0.7]'
    judge("GRU", "B", f"{activations}, activation_beta = [0.2, 0.8]{linear}")
    judge("GRU", "B", f"clip = 0.7{linear}", second_order=False)


@pytest.mark.parametrize("attributes", ["", LINEAR])
def test_a_single_step(attributes: str) -> None:
    judge("GRU", "Bh", attributes, steps=1, batch=1)


@pytest.mark.parametrize(
    ("attributes", "body"),
    [
        ("", ["Add", "Mul", "MatMul", "Concat", "Mul", "Mul", "Gemm", "Mul", "Add"]),
        (LINEAR, ["Add", "Concat", "Mul", "Mul", "Gemm"]),
    ],
)
def test_forward_stays_fused_and_the_body_small(attributes: str, body: list[str]) -> None:
    model = vjp(parse(layer("GRU", "Bh", attributes, kind="symbols")), ["Y"], ["X", "W", "R"])
    nodes = list(walk(model.graph))
    assert [node.op_type for node in nodes].count("GRU") == 1
    (scan,) = (node for node in nodes if node.op_type == "Scan")
    assert [node.op_type for node in scan.attributes["body"].as_graph()] == body

import pytest
from tests.gradient.rules.rnn.layers import judge, layer
from tests.judge import parse

from whileback.gradient import vjp
from whileback.graph.scopes import walk


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_lengths(direction: str) -> None:
    judge("RNN", "Bh", direction=direction)
    judge("RNN", "", direction=direction, lengths=[2, 4, 1], second_order=direction == "reverse")


@pytest.mark.parametrize("kind", ["symbols", "unknown"])
def test_shapes(kind: str) -> None:
    judge("RNN", "Bh", kind=kind, lengths=[2, 4, 1])


@pytest.mark.parametrize("outputs", ["Y", "Yh"])
def test_outputs(outputs: str) -> None:
    judge("RNN", "Bh", outputs=outputs, second_order=False)


def test_a_single_step() -> None:
    judge("RNN", "Bh", steps=1, batch=1)


@pytest.mark.parametrize("activation", ["Tanh", "Elu"])
def test_clip(activation: str) -> None:
    judge("RNN", "B", f'clip = 0.7, activations = ["{activation}"]', second_order=False)


def test_forward_stays_fused_and_slopes_come_from_its_output() -> None:
    model = vjp(parse(layer("RNN", "Bh", kind="symbols")), ["Y"], ["W", "R", "B"])
    nodes = list(walk(model.graph))
    operators = [node.op_type for node in nodes]
    assert operators.count("RNN") == 1
    assert operators.count("Gemm") == 2
    (scan,) = (node for node in nodes if node.op_type == "Scan")
    body = [node.op_type for node in scan.attributes["body"].as_graph()]
    assert body == ["Add", "Mul", "MatMul"]

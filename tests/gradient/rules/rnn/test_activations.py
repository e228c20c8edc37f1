import re

import pytest
from tests.gradient.rules.rnn.layers import judge, layer
from tests.judge import parse

from whileback.errors import GraphError, UnsupportedError
from whileback.gradient import vjp


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Affine", "activation_alpha = [0.6], activation_beta = [0.2]"),
        ("Elu", ""),
        ("Elu", "activation_alpha = [0.6]"),
        ("HardSigmoid", ""),
        ("HardSigmoid", "activation_alpha = [0.3], activation_beta = [0.4]"),
        ("LeakyRelu", ""),
        ("LeakyRelu", "activation_alpha = [0.3]"),
        ("Relu", ""),
        ("ScaledTanh", "activation_alpha = [0.6], activation_beta = [0.8]"),
        ("Sigmoid", ""),
        ("Softplus", ""),
        ("Softsign", ""),
        ("Tanh", ""),
        ("ThresholdedRelu", "activation_alpha = [0.3]"),
    ],
)
def test_every_function(name: str, parameters: str) -> None:
    attributes = ", ".join(filter(None, [f'activations = ["{name}"]', parameters]))
    judge("RNN", "B", attributes, steps=2)


def test_each_takes_its_parameters_from_the_front() -> None:
    attributes = (
        'activations = ["tanh", "ELU", "Relu", "HardSigmoid", "LeakyRelu", "ScaledTanh"],'
        "activation_alpha = [0.7, 0.3, 0.2, 0.9], activation_beta = [0.4, 0.6]"
    )
    judge("LSTM", "B", attributes, direction="bidirectional", second_order=False)


def test_an_unknown_function_is_refused() -> None:
    model = parse(layer("RNN", "B", 'activations = ["Tanhh"]'))
    message = (
        "Node 'RNN' (RNN) has the activation function 'Tanhh', which is none of those that ONNX "
        "lists: did you mean 'Tanh' or 'ScaledTanh'?"
    )
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        vjp(model, ["Y"], ["X"])


def test_a_missing_parameter_is_refused() -> None:
    model = parse(layer("RNN", "B", 'activations = ["ThresholdedRelu"]'))
    message = (
        "Node 'RNN' (RNN) leaves out the alpha of its activation function 'ThresholdedRelu', for "
        "which runtimes have different defaults. State it in the attribute 'activation_alpha'."
    )
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        vjp(model, ["Y"], ["X"])

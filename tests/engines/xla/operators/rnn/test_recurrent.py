"""Recurrent networks agree with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 2

ATTRIBUTES = {
    "RNN": {
        "plain": "",
        "relu": 'activations = ["Relu"]',
        "affine": 'activations = ["Affine"], activation_alpha = [0.4], activation_beta = [0.1]',
        "scaled": 'activations = ["ScaledTanh"], activation_alpha = [0.9], activation_beta = [0.4]',
        "elu": 'activations = ["Elu"], activation_alpha = [0.7]',
        "leaky": 'activations = ["LeakyRelu"], activation_alpha = [0.3]',
        "thresholded": 'activations = ["ThresholdedRelu"], activation_alpha = [0.2]',
        "softsign": 'activations = ["Softsign"]',
        "softplus": 'activations = ["Softplus"]',
        "clipped": "clip = 0.3",
    },
    "GRU": {
        "plain": "",
        "before reset": "linear_before_reset = 1",
        "activations": 'activations = ["HardSigmoid", "Softsign"]',
        "clipped": "clip = 0.3",
    },
    "LSTM": {
        "plain": "",
        "coupled": "input_forget = 1",
        "activations": 'activations = ["HardSigmoid", "Tanh", "Relu"], activation_alpha = [0.3]',
        "clipped": "clip = 0.3",
    },
}
CASES = [(kind, name) for kind, names in ATTRIBUTES.items() for name in names]


def _inputs(kind: str, directions: int) -> dict[str, np.ndarray]:
    gates = GATES[kind] * HIDDEN
    inputs = {
        "X": normal(STEPS, BATCH, INPUT),
        "W": normal(directions, gates, INPUT),
        "R": normal(directions, gates, HIDDEN),
        "B": normal(directions, 2 * gates),
        "lengths": np.int32([3, 5, 1]),
        "h": normal(directions, BATCH, HIDDEN),
    }
    if kind == "LSTM":
        inputs["c"] = normal(directions, BATCH, HIDDEN, seed=1)
        inputs["P"] = normal(directions, 3 * HIDDEN)
    return inputs


def _text(kind: str, attributes: str, operands: str) -> str:
    types = "float X, float W, float R, float B, int32 lengths, float h"
    outputs = "float Y, float Yh"
    results = "Y, Yh"
    if kind == "LSTM":
        types, outputs, results = types + ", float c, float P", outputs + ", float Yc", "Y, Yh, Yc"
    separator = ", " if attributes else ""
    call = f"{kind}<hidden_size = {HIDDEN}{separator}{attributes}>({operands})"
    return f"({types}) => ({outputs}) {{ {results} = {call} }}"


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_runs_forward(kind: str, name: str) -> None:
    operands = "X, W, R, B, , h" + (", c, P" if kind == "LSTM" else "")
    assert_agrees(_text(kind, ATTRIBUTES[kind][name], operands), _inputs(kind, 1))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_ends_where_sequences_do(kind: str, direction: str) -> None:
    operands = "X, W, R, B, lengths, h" + (", c, P" if kind == "LSTM" else "")
    inputs = _inputs(kind, 2 if direction == "bidirectional" else 1)
    assert_agrees(_text(kind, f'direction = "{direction}"', operands), inputs)


@pytest.mark.parametrize("kind", GATES)
def test_starts_from_zeros_without_biases(kind: str) -> None:
    assert_agrees(_text(kind, "", "X, W, R"), _inputs(kind, 1))


def test_takes_activations_for_each_direction() -> None:
    attributes = (
        'direction = "bidirectional", activations = ["LeakyRelu", "ScaledTanh"], '
        "activation_alpha = [0.3, 0.9], activation_beta = [0.4]"
    )
    assert_agrees(_text("RNN", attributes, "X, W, R, B, , h"), _inputs("RNN", 2))

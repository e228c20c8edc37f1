"""RNN, GRU and LSTM in float64 against ONNX Runtime's float32 kernels, on random cases."""

import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from tests.checking.test_expand import agree, normal

from whileback.checking.twin import float64_twin
from whileback.engines import compile

T, B, N, H = 5, 3, 2, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def case(operator, attributes="", direction="forward", given="", seed=0):
    """Return a model's text and its arguments; `given` are the optional inputs it has."""
    gates, D = GATES[operator], 2 if direction == "bidirectional" else 1
    shapes = {
        "x": (T, B, N),
        "w": (D, gates * H, N),
        "r": (D, gates * H, H),
        "b": (D, 2 * gates * H),
        "n": (B,),
        "h": (D, B, H),
        "c": (D, B, H),
        "p": (D, 3 * H),
    }
    order = "xwrbnhcp" if operator == "LSTM" else "xwrbnh"
    used = [name for name in order if name in "xwr" + given]
    feeds = {name: normal(*shapes[name], seed=seed + ord(name)) for name in used}
    if "n" in feeds:
        feeds["n"] = np.array([5, 2, 3], np.int32)
    signature = ", ".join(
        f"{'int32' if name == 'n' else 'float'}[{','.join(map(str, shapes[name]))}] {name}"
        for name in used
    )
    outputs = ["y", "yh", "yc"][: 3 if operator == "LSTM" else 2]
    ranks = {"y": "[T,D,B,H]", "yh": "[D,B,H]", "yc": "[D,B,H]"}
    results = ", ".join(f"float{ranks[name]} {name}" for name in outputs)
    inputs = ", ".join(name if name in used else '""' for name in order)
    more = f", {attributes}" if attributes else ""
    call = f'{operator}<hidden_size = {H}, direction = "{direction}"{more}>({inputs})'
    return f"({signature}) => ({results}) {{ {', '.join(outputs)} = {call} }}", feeds


@pytest.mark.parametrize("given", ["", "b", "bnhcp", "n", "h", "c", "p"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_inputs_and_directions(operator, direction, given):
    agree(*case(operator, "", direction, given))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("given", ["bnhcp", "b", ""])
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("RNN", "clip = 0.5"),
        ("GRU", "clip = 0.5"),
        ("LSTM", "clip = 0.5"),
        ("GRU", "linear_before_reset = 1"),
        ("GRU", "linear_before_reset = 1, clip = 0.4"),
        ("LSTM", "input_forget = 1"),
    ],
)
def test_attributes(operator, attributes, given, direction):
    agree(*case(operator, attributes, direction, given))


ACTIVATIONS = [
    '"Affine"], activation_alpha = [0.7], activation_beta = [0.1]',
    '"Elu"], activation_alpha = [0.7]',
    '"HardSigmoid"], activation_alpha = [0.3], activation_beta = [0.4]',
    '"HardSigmoid"]',
    '"LeakyRelu"], activation_alpha = [0.2]',
    '"Relu"]',
    '"ScaledTanh"], activation_alpha = [1.2], activation_beta = [0.6]',
    '"Sigmoid"]',
    '"Softplus"]',
    '"Softsign"]',
    '"ThresholdedRelu"], activation_alpha = [0.3]',
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation):
    agree(*case("RNN", f"activations = [{activation}", given="bh"))


def test_parameters_go_to_the_activations_that_take_them():
    names = '"HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "ScaledTanh", "Affine"'
    parameters = "activation_alpha = [0.3, 0.2, 1.1, 0.8], activation_beta = [0.4, 0.9, 0.1]"
    agree(*case("LSTM", f"activations = [{names}], {parameters}", "bidirectional", "bnhcp"))
    names = '"Sigmoid", "ScaledTanh", "HardSigmoid", "Softsign"'
    parameters = "activation_alpha = [1.1, 0.3], activation_beta = [0.9, 0.4]"
    agree(*case("GRU", f"activations = [{names}], {parameters}", "bidirectional", "bnh"))


def test_everything_onnx_itself_tests():
    """ONNX Runtime has no batch-first layout; the recorded results of ONNX do."""
    wanted = ("test_lstm", "test_gru", "test_rnn", "test_simple_rnn")
    cases = [c for c in collect_testcases(None) if c.name.startswith(wanted)]
    assert len(cases) >= 18
    assert any("batchwise" in c.name for c in cases)
    for each in cases:
        twin = float64_twin(ir.from_proto(each.model))
        inputs, outputs = (
            [onnx.numpy_helper.to_array(t) if isinstance(t, onnx.TensorProto) else t for t in part]
            for part in each.data_sets[0]
        )
        names = [value.name for value in each.model.graph.input]
        feeds = {
            n: v.astype(np.float64) if v.dtype == np.float32 else v
            for n, v in zip(names, inputs, strict=True)
        }
        got = compile(twin, threads=1)(feeds)
        for have, want in zip(got.values(), outputs, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5, err_msg=each.name)


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_ranks_need_not_be_known(operator):
    text, feeds = case(operator, given="bnh")
    for name in "xwrbnh":
        text = re.sub(rf"(float|int32)\[[0-9,]*\] {name}\b", rf"\1[] {name}", text)
    assert "float[] x" in text
    agree(text, feeds)

"""Cells of recurrent networks: their gradients, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator
from tests.caffe2.operators.running import refusal

RNG = np.random.default_rng(3)
LENGTHS = np.array([1, 3, 0], np.int32)


def states(gates: int) -> dict[str, np.ndarray]:
    sizes = {"h": 2, "c": 2, "g": 2 * gates}
    found = {
        name: RNG.uniform(-1, 1, (1, 3, size)).astype(np.float32) for name, size in sizes.items()
    }
    return {**found, "lengths": LENGTHS, "t": np.array([1], np.int32)}


ARGUMENTS = [{}, {"drop_states": 1}, {"sequence_lengths": 0}, {"forget_bias": 0.5}]


@pytest.mark.parametrize("args", ARGUMENTS)
def test_the_gradient_of_an_lstm_unit(args: dict[str, Any]) -> None:
    inputs = ["h", "c", "g", *(["lengths"] if args.get("sequence_lengths", 1) else []), "t"]
    feeds = states(4)
    op = operator("LSTMUnit", inputs, ["h_new", "c_new"], **args)
    check_maker(op, {name: feeds[name] for name in inputs}, ["h", "c", "g"])
    check_maker(op, {name: feeds[name] for name in inputs}, ["h", "c", "g"], of=["c_new"])


@pytest.mark.parametrize("args", ARGUMENTS[:3])
def test_the_gradient_of_a_gru_unit(args: dict[str, Any]) -> None:
    inputs = ["h", "g", *(["lengths"] if args.get("sequence_lengths", 1) else []), "t"]
    feeds = states(3)
    op = operator("GRUUnit", inputs, ["h_new"], **args)
    check_maker(op, {name: feeds[name] for name in inputs}, ["h", "g"])


def test_a_unit_without_lengths_has_a_gradient_operator_without_them() -> None:
    op = operator("LSTMUnit", ["h", "c", "g", "t"], ["H", "C"], sequence_lengths=0)
    net, found = differentiated(op, ["dH", "dC"])
    assert list(net.op[1].input) == ["h", "c", "g", "t", "H", "C", "dH", "dC"]
    assert found == ["h_grad", "c_grad", "g_grad", None]


def test_a_unit_that_lacks_its_lengths() -> None:
    feeds = states(4)
    op = operator("LSTMUnit", ["h", "c", "g", "t"], ["H", "C"])
    assert refusal(op, {name: feeds[name] for name in op.input}) == (
        "LSTMUnit (writes 'H') needs 5 tensors, but was given 4: ['h', 'c', 'g', 't']. Correct "
        "its inputs."
    )

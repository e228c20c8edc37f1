"""Masks: gradients against differences, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import NetDefError
from whileback.formats.caffe2.caffe2_pb2 import NetDef

X = np.random.default_rng(1).uniform(-2, 2, (2, 3, 3)).astype(np.float32)


@pytest.mark.parametrize("mask", [[True, False], [False, False]])
@pytest.mark.parametrize("part", [(), (..., 0, 0)])
@pytest.mark.parametrize("outputs", [["y"], ["y", "places"]])
def test_boolean_mask(mask: list[bool], part: Any, outputs: list[str]) -> None:
    op = operator("BooleanMask", ["x", "m"], outputs)
    check_maker(op, {"x": X[part], "m": np.array(mask)}, ["x"], ["y"])


def test_boolean_unmask() -> None:
    masks = np.array([[True, False, True, False], [True, True, False, False], [True] * 4])
    feeds = {"m": masks[0], "n": masks[1], "o": masks[2]}
    feeds |= {"a": X[0, 0, :2], "b": X[0, 1, :1], "c": X[0, 2, :1]}
    op = operator("BooleanUnmask", ["m", "a", "n", "b", "o", "c"], ["y"])
    check_maker(op, feeds, ["a", "b", "c"])


@pytest.mark.parametrize(
    "args",
    [
        {"mode": "sequence", "axis": 1},
        {"mode": "window", "axis": 2, "batch": 0, "radius": 1},
        {"mode": "upperdiag", "axis": 2},
    ],
)
def test_sequence_mask(args: dict[str, Any]) -> None:
    feeds = {"x": X, "l": np.array([1, 2, 3], np.int32)}
    check_maker(operator("SequenceMask", ["x", "l"], ["y"], fill_val=3.0, **args), feeds, ["x"])


def test_an_unknown_mode_is_refused() -> None:
    net = NetDef(name="n", op=[operator("SequenceMask", ["x"], ["y"], mode="diagonal")])
    with pytest.raises(NetDefError) as caught:
        read(net, {"x": TensorSpec.of(X)})
    assert str(caught.value) == (
        "SequenceMask (writes 'y') has mode 'diagonal', not one of 'sequence', 'window', 'upper', "
        "'lower', 'upperdiag', 'lowerdiag'."
    )


def test_remove_data_blocks() -> None:
    feeds = {"x": X[0], "i": np.array([1, 1])}
    check_maker(operator("RemoveDataBlocks", ["x", "i"], ["y"]), feeds, ["x"])


def test_variable_length_sequence_padding() -> None:
    feeds = {"x": X, "l": np.array([1, 0, 2], np.int32)}
    check_maker(operator("VariableLengthSequencePadding", ["x", "l"], ["y"]), feeds, ["x"])

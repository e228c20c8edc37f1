"""Packed and padded sequences: gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

from whileback import compile
from whileback.caffe2.reading import TensorSpec, read
from whileback.formats.caffe2.caffe2_pb2 import NetDef

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (5, 2)).astype(np.float32)
PACKED = RNG.uniform(-2, 2, (3, 4, 2)).astype(np.float32)
LENGTHS = np.array([2, 0, 3], np.int32)


@pytest.mark.parametrize("args", [{}, {"max_length": 4}, {"max_length": 2}])
@pytest.mark.parametrize("rows", [X, X[:, 0]])
def test_pack_segments(rows: np.ndarray, args: dict[str, int]) -> None:
    op = operator("PackSegments", ["l", "x"], ["y"], **args)
    check_maker(op, {"x": rows, "l": LENGTHS}, ["x"])


@pytest.mark.parametrize(("width", "args"), [(4, {}), (3, {}), (2, {"max_length": 2})])
@pytest.mark.parametrize("part", [(), (..., 0)])
def test_unpack_segments(width: int, args: dict[str, int], part: Any) -> None:
    op = operator("UnpackSegments", ["l", "x"], ["y"], **args)
    check_maker(op, {"x": PACKED[:, :width][part], "l": LENGTHS}, ["x"])


def test_rnn_sequences() -> None:
    feeds = {"x": X, "l": LENGTHS}
    check_maker(operator("PackRNNSequence", ["x", "l"], ["y"]), feeds, ["x"])
    feeds = {"x": PACKED.swapaxes(0, 1), "l": LENGTHS}
    check_maker(operator("UnpackRNNSequence", ["x", "l"], ["y"]), feeds, ["x"])
    check_maker(operator("ReversePackedSegs", ["x", "l"], ["y"]), feeds, ["x"])


@pytest.mark.parametrize("outputs", [["y"], ["y", "longer"]])
@pytest.mark.parametrize("pads", [[], ["a"], ["a", "b"]])
def test_add_padding(pads: list[str], outputs: list[str]) -> None:
    feeds = {"x": X, "l": LENGTHS, "a": X[0], "b": X[1]}
    args = {"padding_width": 1, "end_padding_width": 2}
    op = operator("AddPadding", ["x", "l", *pads], outputs, **args)
    check_maker(op, feeds, ["x", *pads], ["y"])


@pytest.mark.parametrize("outputs", [["y"], ["y", "shorter"]])
def test_remove_padding(outputs: list[str]) -> None:
    feeds = {"x": PACKED.reshape(12, 2), "l": np.array([4, 2, 6], np.int32)}
    check_maker(operator("RemovePadding", ["x", "l"], outputs), feeds, ["x"], ["y"])
    check_maker(operator("RemovePadding", ["x"], outputs), feeds, ["x"], ["y"])
    check_maker(operator("AddPadding", ["x"], outputs), feeds, ["x"], ["y"])


def test_strings_are_packed_with_empty_ones() -> None:
    feeds = {"l": np.array([2, 1], np.int32), "x": np.array(["a", "b", "c"], object)}
    net = NetDef(name="n", op=[operator("PackSegments", ["l", "x"], ["y"])])
    reading = read(net, {name: TensorSpec.of(array) for name, array in feeds.items()})
    assert compile(reading.model)(feeds)["y"].tolist() == [["a", "b"], ["c", ""]]

"""Picking rows by index: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator

X = np.random.default_rng(1).uniform(-2, 2, (3, 4, 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("indices", "args"),
    [
        ([2, 0, 2], {}),
        ([[2, 0], [1, 1]], {}),
        ([2, 0, 2], {"dense_gradient": 1}),
        ([[2, 0], [1, 1]], {"dense_gradient": 1}),
        ([], {"dense_gradient": 1}),
        ([3, 0, 3], {"axis": 1}),
        ([[1, 1]], {"axis": -1}),
        ([[1, 1], [0, 3], [2, 2]], {"axis": 1, "match_outer": 1}),
    ],
)
def test_gather(indices: list[int], args: dict[str, int]) -> None:
    feeds = {"x": X, "i": np.array(indices, np.int32)}
    check_maker(operator("Gather", ["x", "i"], ["y"], **args), feeds, ["x"])


@pytest.mark.parametrize("args", [{}, {"match_outer": 1}])
def test_batch_gather(args: dict[str, int]) -> None:
    feeds = {"x": X, "i": np.array([[1, 1], [0, 3], [2, 2]])}
    check_maker(operator("BatchGather", ["x", "i"], ["y"], **args), feeds, ["x"])


def test_a_gather_of_rows_needs_no_operator() -> None:
    net, _ = differentiated(operator("Gather", ["x", "i"], ["y"]), ["y_seed"])
    assert [op.type for op in net.op] == ["Gather"]


def test_gather_ranges() -> None:
    ranges = np.array([[[0, 2], [1, 0]], [[1, 2], [3, 1]]], np.int32)
    op = operator("GatherRanges", ["x", "r"], ["y", "lengths"])
    check_maker(op, {"x": X[0, :, 0], "r": ranges}, ["x"], ["y"])


def test_lengths_gather() -> None:
    feeds = {"x": X, "l": np.array([2, 0, 1], np.int32), "i": np.array([2, 0, 2])}
    check_maker(operator("LengthsGather", ["x", "l", "i"], ["y"]), feeds, ["x"])


def test_batch_permutation() -> None:
    feeds = {"x": X, "i": np.array([2, 0, 1], np.int32)}
    check_maker(operator("BatchPermutation", ["x", "i"], ["y"]), feeds, ["x"])

"""Reductions of segments: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (5, 1, 2)).astype(np.float32)
WEIGHTS = RNG.uniform(-2, 2, 5).astype(np.float32)
LENGTHS = np.array([2, 0, 3], np.int32)
SORTED = np.array([0, 0, 1, 2, 2], np.int32)
UNSORTED = np.array([3, 0, 0, 3, 1], np.int32)
INDICES = np.array([4, 0, 1, 1, 0])
GROUPS = {"Lengths": LENGTHS, "SortedSegment": SORTED, "UnsortedSegment": UNSORTED}
RANGES = ["Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"]


@pytest.mark.parametrize("reduction", ["Sum", "Mean"])
@pytest.mark.parametrize("group", GROUPS)
def test_sums_and_means(group: str, reduction: str) -> None:
    feeds = {"x": X, "g": GROUPS[group]}
    check_maker(operator(f"{group}{reduction}", ["x", "g"], ["y"]), feeds, ["x"])
    op = operator(f"Sparse{group}{reduction}", ["x", "i", "g"], ["y"])
    check_maker(op, feeds | {"i": INDICES}, ["x"])


@pytest.mark.parametrize("group", GROUPS)
def test_weighted_sums(group: str) -> None:
    feeds = {"x": X, "w": WEIGHTS, "g": GROUPS[group]}
    name = f"{group}WeightedSum"
    check_maker(operator(name, ["x", "w", "g"], ["y"], grad_on_weights=1), feeds, ["x", "w"])
    check_maker(operator(name, ["x", "w", "g"], ["y"]), feeds, ["x"])
    sparse = operator(f"Sparse{name}", ["x", "w", "i", "g"], ["y"], grad_on_weights=1)
    check_maker(sparse, feeds | {"i": INDICES}, ["x", "w"])


@pytest.mark.parametrize("reduction", RANGES)
@pytest.mark.parametrize("shape", [(5,), (5, 2)])
def test_ranges(reduction: str, shape: tuple[int, ...]) -> None:
    feeds = {"x": RNG.uniform(-2, 2, shape).astype(np.float32), "g": SORTED}
    check_maker(operator(f"SortedSegmentRange{reduction}", ["x", "g"], ["y"]), feeds, ["x"])


def test_lengths_max() -> None:
    check_maker(operator("LengthsMax", ["x", "g"], ["y"]), {"x": X, "g": LENGTHS}, ["x"])


def test_more_segments_than_the_ids_name() -> None:
    op = operator("UnsortedSegmentMean", ["x", "g"], ["y"], num_segments=6)
    check_maker(op, {"x": X, "g": UNSORTED}, ["x"])

"""Rows sent to parts and brought back: gradients against differences."""

from __future__ import annotations

import numpy as np
from tests.caffe2.operators.makers import check_maker, operator

X = np.random.default_rng(1).uniform(-2, 2, (5, 2)).astype(np.float32)
KEYS = np.array([5, 4, 3, 2, -1])


def test_partition() -> None:
    outputs = ["k0", "x0", "k1", "x1", "k2", "x2"]
    op = operator("Partition", ["k", "x"], outputs)
    check_maker(op, {"k": KEYS, "x": X}, ["x"], ["x0", "x1", "x2"])
    check_maker(op, {"k": KEYS, "x": X}, ["x"], ["x1"])


def test_lengths_partition() -> None:
    op = operator("LengthsPartition", ["l", "k", "x"], ["l0", "k0", "x0", "l1", "k1", "x1"])
    feeds = {"l": np.array([2, 0, 3], np.int32), "k": KEYS, "x": X}
    check_maker(op, feeds, ["x"], ["x0", "x1"])


def test_gather_by_key() -> None:
    op = operator("GatherByKey", ["k", "a", "b"], ["y"])
    check_maker(op, {"k": KEYS, "a": X[:2], "b": X[2:]}, ["a", "b"])

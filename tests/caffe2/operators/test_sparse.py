"""Rows and elements given by index: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

X = np.random.default_rng(1).uniform(-2, 2, (7, 2)).astype(np.float32)
IDS = np.array([7, 12, 99, 7, 12, 8, 7])
DEFAULT = np.float32([-1, -2])


def test_sparse_to_dense() -> None:
    feeds = {"i": np.array([2, 0, 2], np.int32), "v": X[:3], "like": X[:5]}
    check_maker(operator("SparseToDense", ["i", "v"], ["y"]), feeds, ["v"])
    check_maker(operator("SparseToDense", ["i", "v", "like"], ["y"]), feeds, ["v", "like"])


@pytest.mark.parametrize("rows", [X, X[:, 0]])
@pytest.mark.parametrize("lengths", [[], ["l"]])
def test_sparse_to_dense_mask(rows: np.ndarray, lengths: list[str]) -> None:
    feeds = {"i": IDS, "v": rows, "d": DEFAULT if rows.ndim == 2 else np.float32(-1)}
    feeds |= {name: np.array([3, 0, 4], np.int32) for name in lengths}
    op = operator("SparseToDenseMask", ["i", "v", "d", *lengths], ["y"], mask=[12, 7, 5])
    check_maker(op, feeds, ["v", "d"])


def test_batch_sparse_to_dense() -> None:
    feeds = {"l": np.array([2, 0, 1]), "i": np.array([0, 3, 2]), "v": X[:3, 0], "like": X[:3]}
    feeds["like"] = np.zeros((3, 5), np.float32)
    op = operator("BatchSparseToDense", ["l", "i", "v", "like"], ["y"])
    check_maker(op, feeds, ["v"])


def test_batch_dense_to_sparse() -> None:
    feeds = {"l": np.array([2, 0, 1]), "i": np.array([0, 1, 1]), "x": X[:3]}
    check_maker(operator("BatchDenseToSparse", ["l", "i", "x"], ["y"]), feeds, ["x"])

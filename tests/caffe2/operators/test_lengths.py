"""Rows picked or padded by lengths: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

X = np.random.default_rng(1).uniform(-2, 2, (5, 2)).astype(np.float32)
LENGTHS = np.array([2, 0, 3], np.int32)


def test_lengths_tile() -> None:
    check_maker(operator("LengthsTile", ["x", "l"], ["y"]), {"x": X[:3], "l": LENGTHS}, ["x"])


def test_lengths_pad() -> None:
    op = operator("LengthsPad", ["x", "l"], ["y"], target_length=4, padding_value=2.0)
    check_maker(op, {"x": X, "l": LENGTHS}, ["x"])


@pytest.mark.parametrize("k", [2, 4])
def test_lengths_top_k(k: int) -> None:
    op = operator("LengthsTopK", ["x", "l"], ["y", "i"], k=k)
    check_maker(op, {"x": X[:, 0], "l": LENGTHS}, ["x"], ["y"])

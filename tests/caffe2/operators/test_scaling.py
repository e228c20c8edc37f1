"""Multiples of rows and of tensors: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

X = np.float32([[[1, -2]], [[0.5, 3]], [[2, 1]]])


def test_row_mul() -> None:
    feeds = {"x": X, "w": np.float32([2, -1, 0.5])}
    check_maker(operator("RowMul", ["x", "w"], ["y"]), feeds, ["x", "w"])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_square_root_divide(dtype: type) -> None:
    feeds = {"x": X, "s": np.array([0, 4, 3], dtype)}
    check_maker(operator("SquareRootDivide", ["x", "s"], ["y"]), feeds, ["x"])


def test_scale_blobs() -> None:
    op = operator("ScaleBlobs", ["a", "b"], ["c", "d"], scale=-2.5)
    check_maker(op, {"a": X, "b": X[0]}, ["a", "b"])

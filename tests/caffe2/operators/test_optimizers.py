"""Optimizers: rows that take several steps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import operator
from tests.caffe2.operators.running import refusal, run


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("indices", [[], [2], [1, 1, 1], [3, 0, 3, 0, 3], [0, 1, 2, 3]])
def test_steps_of_rows_are_those_of_one_after_the_other(indices: list[int], dtype: type) -> None:
    rng = np.random.default_rng(1)
    w, m = (rng.uniform(0, 1, (4, 2)).astype(np.float32) for _ in range(2))
    g = rng.uniform(-1, 1, (len(indices), 2)).astype(np.float32)
    lr = np.array([0.1], np.float32)
    whole = operator("SparseAdagrad", ["w", "m", "i", "g", "lr"], ["w", "m"])
    feeds = {"w": w, "m": m, "i": np.array(indices, dtype), "g": g, "lr": lr}
    together = run(whole, feeds)
    for index, row in zip(indices, g, strict=True):
        single = operator("Adagrad", ["w", "m", "g", "lr"], ["w", "m"])
        step = {"w": w[index], "m": m[index], "g": row, "lr": lr}
        w[index], m[index] = run(single, step)
    np.testing.assert_allclose(together, [w, m], rtol=1e-6)


def test_a_regularizer_of_another_norm() -> None:
    op = operator("SparseLpRegularizer", ["w", "i"], ["w"], p=3.0, reg_lambda=0.1)
    feeds = {"w": np.ones((2, 2), np.float32), "i": np.array([0])}
    assert refusal(op, feeds) == "SparseLpRegularizer (writes 'w') has p 3; it must be 1 or 2."


def test_an_optimizer_that_lacks_an_input() -> None:
    op = operator("Adagrad", ["w", "m", "g"], ["w", "m"])
    feeds = dict.fromkeys(["w", "m", "g"], np.ones(2, np.float32))
    assert refusal(op, feeds) == (
        "Adagrad (writes 'w') needs 4 inputs, but has 3: ['w', 'm', 'g']. Correct the net."
    )

"""Operators that combine many tensors: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

FEEDS = {
    "a": np.float32([[1, -2], [0.5, 3]]),
    "b": np.float32([[2, -3], [0.7, 1]]),
    "c": np.float32([[-1, 4], [0.1, 2]]),
}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("op_type", ["Sum", "SumRelu", "Mean", "Max", "Min"])
def test_sums(op_type: str, count: int) -> None:
    names = ["a", "b", "c"][:count]
    check_maker(operator(op_type, names, ["y"]), {name: FEEDS[name] for name in names}, names)


def test_weighted_sum_with_its_weights() -> None:
    feeds = FEEDS | {"v": np.float32([0.5]), "w": np.float32([-2])}
    op = operator("WeightedSum", ["a", "v", "b", "w"], ["y"])
    check_maker(op, {name: feeds[name] for name in op.input}, ["a", "v", "b", "w"])


@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min", "Add", "Mul", "Div", "Sub"])
def test_one_tensor_twice(op_type: str) -> None:
    check_maker(operator(op_type, ["a", "a"], ["y"]), {"a": FEEDS["a"]}, ["a"])

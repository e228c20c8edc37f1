"""The choice between two tensors: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

from whileback.caffe2.operators.registry import gradient_operators, no_gradient

X, Y = np.float32([[1, -2], [0.5, 3]]), np.float32([[2, -3], [0.7, 1]])


def test_where() -> None:
    feeds = {"c": np.array([[True, False], [False, True]]), "x": X, "y": Y}
    check_maker(operator("Where", ["c", "x", "y"], ["z"]), feeds, ["x", "y"])


@pytest.mark.parametrize(
    ("op_type", "args"), [("Where", {"broadcast_on_rows": 1}), ("Conditional", {})]
)
def test_a_choice_for_each_row(op_type: str, args: dict[str, int]) -> None:
    feeds = {"c": np.array([True, False]), "x": X, "y": Y}
    check_maker(operator(op_type, ["c", "x", "y"], ["z"], **args), feeds, ["x", "y"])


@pytest.mark.parametrize("op_type", "EQ NE LT LE GT GE And Or Xor Not BitwiseAnd".split())
def test_truth_values_have_no_gradient(op_type: str) -> None:
    assert op_type in no_gradient and op_type not in gradient_operators

"""Matrices and products with the Hessian of truncated loops: what is held as it was, stays so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.gradient.memory.test_truncation import (
    COUNTED,
    ENDED_BY_A_CONDITION,
    W,
    X,
    counted,
    differences,
    truncated_sum,
)
from tests.judge import parse

from whileback import compile
from whileback.gradient import hessian, hvp, jacobian, vjp

POINT = {"x": X, "w": W}


def frozen(total: int, trips: int) -> Any:
    """Return the sum of the last values, every segment of which starts with what it found."""
    a = np.repeat(np.arange(float(total)), 2).reshape(-1, 2)
    rows = np.zeros((total, 2))
    evaluate = truncated_sum(counted(X, W, a, 0, total), trips, np.ones(2), rows)
    return lambda x, w: evaluate(x, w, a)


@pytest.mark.parametrize(("total", "trips"), [(0, 2), (3, 3), (7, 3), (9, 3)])
@pytest.mark.parametrize("text", [COUNTED, ENDED_BY_A_CONDITION])
def test_second_derivatives_against_differences(text: str, total: int, trips: int) -> None:
    """Those of the model in which what is held is constant, so that they are symmetric."""
    function = frozen(total, trips)
    want = differences(function, X, W)

    def slopes(index: int, place: tuple[int, ...]) -> Any:
        return lambda x, w: differences(function, x, w)[index][place]

    feeds = POINT | {"M": total}
    matrix = compile(hessian(parse(text), "y", ["x", "w"], reduce="sum", truncate=trips))(feeds)
    model = hvp(parse(text), "y", ["x", "w"], reduce="sum", truncate=trips)
    directions = [np.array([0.5, -1.0]), np.array([[1.0, 0.25], [-0.5, 0.75]])]
    product = compile(model)(feeds | {"x_tangent": directions[0], "w_tangent": directions[1]})
    for index, name in enumerate(POINT):
        np.testing.assert_allclose(product[f"{name}_grad"], want[index], atol=1e-9)
        for place in np.ndindex(want[index].shape):
            blocks = differences(slopes(index, place), X, W)
            for block, other in zip(blocks, POINT, strict=True):
                found = matrix[f"{name}_{other}_hessian"][place]
                np.testing.assert_allclose(found, block, atol=1e-6)
            total_change = sum(np.vdot(b, d) for b, d in zip(blocks, directions, strict=True))
            np.testing.assert_allclose(product[f"{name}_hvp"][place], total_change, atol=1e-5)


@pytest.mark.parametrize("wrt", [["x"], ["w", "x"]])
@pytest.mark.parametrize("memory", [None, "recompute", "checkpoint"])
def test_rows_and_columns_are_truncated_gradients(memory: Any, wrt: list[str]) -> None:
    """Forward, over the columns, and backward, over the rows."""
    feeds = POINT | {"M": 8}
    model = jacobian(parse(COUNTED), "y", wrt, truncate={"s": 3}, memory=memory)
    found = compile(model)(feeds)
    pulled = compile(vjp(parse(COUNTED), "y", wrt, truncate=3))
    for row, unit in enumerate(np.eye(2)):
        want = pulled(feeds | {"y_grad": unit})
        for name in wrt:
            np.testing.assert_allclose(
                found[f"y_{name}_jacobian"][row], want[f"{name}_grad"], atol=1e-13
            )

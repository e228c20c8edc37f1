"""Operators take stacks as they are, of whose rows only some count."""

from __future__ import annotations

import pytest
from tests.engines.xla.operators.stacks import assert_takes_rows

CALLS = {
    "elements": [
        "Add(S, T)",
        "Div(S, T)",
        "Sqrt(T)",
        "Greater(S, T)",
        "Max(S, T, B)",
        "Pow(T, S)",
        "Cast<to = 6>(S)",
        "IsNaN(S)",
        "CumSum(S, zero)",
        "CumSum<reverse = 1, exclusive = 1>(S, one)",
        "CumSum<reverse = 1>(S, zero)",
    ],
    "sums": [
        "ReduceSum(S, zero)",
        "ReduceSum(S, one)",
        "ReduceMean(S, zero)",
        "ReduceMean(S, one)",
        "ReduceMean(S)",
        "ReduceMax(S, zero)",
        "ReduceMin(S)",
        "ReduceProd(S, zero)",
        "ReduceLogSumExp(S, zero)",
        "ReduceL2(S, zero)",
        "ArgMax(S)",
        "ArgMin<axis = -1>(S)",
    ],
    "products": [
        "MatMul(S, V)",
        "Gemm<transB = 1, alpha = 0.5>(S, W)",
        "Gemm<transA = 1, beta = 2.0>(S, T, B)",
        "Gemm(S, V)",
        'Einsum<equation = "ni,nj->ij">(S, T)',
        'Einsum<equation = "ni,ki->nk">(S, W)',
        "Hardmax(S)",
        "TopK(S, two)",
    ],
}


@pytest.mark.parametrize("kind", CALLS)
def test_takes_rows(kind: str) -> None:
    assert_takes_rows(CALLS[kind])


def test_takes_stacks_of_matrices() -> None:
    assert_takes_rows(
        ["MatMul(S, V)", "MatMul(W, S)", "MatMul(S, T)", "Det(S)", "ReduceSum(S)"], row="3, 3"
    )


def test_takes_vectors_of_rows() -> None:
    assert_takes_rows(["ReduceSum(S)", "Mul(S, T)", "ReduceMax(S, zero)"], row="1")

"""Softmax and the losses it ends in: their gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal

X = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype(np.float32)
IMAGES = np.random.default_rng(1).uniform(-1, 1, (2, 3, 2, 1)).astype(np.float32)
LABELS = np.int32([2, 0])
PLACES = np.int32([[[2], [-1]], [[0], [1]]])
T = np.float32([[0.2, 0.3, 0.5], [1, 0, 0]])
WEIGHTS = np.float32([0.5, 2])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    check_maker(operator("Softmax", ["x"], ["p"], axis=axis), {"x": X}, ["x"])


@pytest.mark.parametrize("of", [["loss"], ["p"], ["p", "loss"]])
@pytest.mark.parametrize(
    ("others", "args"),
    [
        ([LABELS], {}),
        ([LABELS, WEIGHTS], {"scale": 3.0}),
        ([LABELS, WEIGHTS], {"average_by_batch_size": 1}),
        ([T, WEIGHTS], {"label_prob": 1}),
        ([LABELS[:1]], {"axis": 0}),
    ],
)
def test_softmax_with_loss(others: list[np.ndarray], args: Any, of: list[str]) -> None:
    feeds = {"x": X, **{f"t{k}": other for k, other in enumerate(others)}}
    check_maker(operator("SoftmaxWithLoss", [*feeds], ["p", "loss"], **args), feeds, ["x"], of)


@pytest.mark.parametrize("of", [["loss"], ["p"], ["p", "loss"]])
@pytest.mark.parametrize("weights", [[], [np.float32([[[1], [2]], [[3], [4]]])]])
def test_spatial_softmax_with_loss(weights: list[np.ndarray], of: list[str]) -> None:
    feeds = {"x": IMAGES, "t": PLACES, **{f"w{k}": each for k, each in enumerate(weights)}}
    op = operator("SpatialSoftmaxWithLoss", [*feeds], ["p", "loss"], scale=2.0)
    check_maker(op, feeds, ["x"], of)


def test_refused() -> None:
    op = operator("SpatialSoftmaxWithLoss", ["x", "t"], ["p", "loss"], order="NHWC")
    assert refusal(op, {"x": IMAGES, "t": PLACES}) == (
        "SpatialSoftmaxWithLoss (writes 'p') cannot be read: it is there for the order NCHW alone. "
        "Transpose its inputs."
    )
    assert refusal(operator("Softmax", ["x"], ["p"], axis=2), {"x": X}) == (
        "Softmax (writes 'p') has axis 2 for a tensor of rank 2."
    )

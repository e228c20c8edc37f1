"""Pools: gradients against differences, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "args",
    [
        {"kernel": 2, "pad": 1},
        {"kernel": 3, "stride": 2, "legacy_pad": 3},
        {"kernel": 2, "dilation": 2},
    ],
)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_gradients(op_type: str, args: dict[str, Any], order: str) -> None:
    X = image(1, 2, 4, 4) if order == "NCHW" else image(1, 4, 4, 2)
    check_maker(operator(op_type, ["X"], ["Y"], order=order, **args), {"X": X}, ["X"])


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_gradients_of_global_pools(op_type: str) -> None:
    op = operator(op_type, ["X"], ["Y"], global_pooling=1, stride=1)
    check_maker(op, {"X": image(2, 2, 3, 2)}, ["X"])


@pytest.mark.parametrize(
    ("op_type", "args", "message"),
    [
        (
            "MaxPool",
            {"kernel": 2, "pad": 2},
            "MaxPool (writes 'Y') has padding [2, 2, 2, 2] for a kernel of [2, 2], so that windows "
            "may hold nothing else. Make the kernel larger, or the padding smaller.",
        ),
        (
            "AveragePool",
            {"kernel": 2, "stride": 3, "legacy_pad": 3},
            "AveragePool (writes 'Y') has padding [0, 0, 2, 2] for a kernel of [2, 2], so that "
            "windows may hold nothing else. Make the kernel larger, or the padding smaller.",
        ),
        (
            "LpPool",
            {"kernel": 2, "p": 1.5},
            "LpPool (writes 'Y') cannot be read: its p is 1.5, and only the norms of whole numbers "
            "p ≥ 1 are known.",
        ),
    ],
)
def test_refused(op_type: str, args: dict[str, Any], message: str) -> None:
    assert refusal(operator(op_type, ["X"], ["Y"], **args), {"X": image(1, 1, 6, 6)}) == message


def test_the_gradient_of_the_maximum_of_huge_windows() -> None:
    op = operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], kernel=100)
    one = image(1, 1, 1, 1)
    assert refusal(op, {"X": image(1, 1, 100, 100), "Y": one, "dY": one}) == (
        "MaxPoolGradient (writes 'dX') cannot be read: the elements of its kernel [100, 100] are "
        "read one by one, so there may be 4096 at most. Make it smaller."
    )


def test_the_gradient_for_no_images() -> None:
    op = operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], kernel=2)
    given = {"X": image(0, 2, 3, 3), "Y": image(0, 2, 2, 2), "dY": image(0, 2, 2, 2)}
    assert run(op, given)[0].shape == (0, 2, 3, 3)

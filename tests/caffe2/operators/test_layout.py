"""Operators that put elements in another order: gradients against differences, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run


def tensor(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op_type", "shape", "args"),
    [
        ("Transpose", (2, 3, 4), {"axes": [2, 0, 1]}),
        ("Transpose", (2, 3), {}),
        ("NCHW2NHWC", (1, 2, 3, 2), {}),
        ("NHWC2NCHW", (1, 2, 3), {}),
        ("ChannelShuffle", (1, 6, 2), {"group": 3}),
        ("ChannelShuffle", (1, 2, 6), {"group": 2, "order": "NHWC"}),
        ("SpaceToBatch", (1, 2, 2, 4), {"pad": 1}),
        ("BatchToSpace", (4, 1, 2, 2), {"pad": 1}),
    ],
)
def test_gradients(op_type: str, shape: tuple[int, ...], args: dict[str, Any]) -> None:
    check_maker(operator(op_type, ["X"], ["Y"], **args), {"X": tensor(*shape)}, ["X"])


@pytest.mark.parametrize(
    ("op_type", "args", "message"),
    [
        (
            "Transpose",
            {"axes": [-1, 0, 1, 2]},
            "Transpose (writes 'Y') has axes [-1, 0, 1, 2], which are no permutation.",
        ),
        (
            "ChannelShuffle",
            {"group": 0},
            "ChannelShuffle (writes 'Y') has 'group' 0; it must be 1 or more.",
        ),
        (
            "ChannelShuffle",
            {"group": 3},
            "ChannelShuffle (writes 'Y') has 4 channels for 3 groups.",
        ),
        (
            "SpaceToBatch",
            {"block_size": 0},
            "SpaceToBatch (writes 'Y') has 'block_size' 0; it must be 1 or more.",
        ),
        (
            "BatchToSpace",
            {"order": "NHWC"},
            "BatchToSpace (writes 'Y') needs images of rank 4 in the order NCHW, but its input is "
            "FLOAT[4,4,4,4], in the order NHWC.",
        ),
    ],
)
def test_refused(op_type: str, args: dict[str, Any], message: str) -> None:
    assert refusal(operator(op_type, ["X"], ["Y"], **args), {"X": tensor(4, 4, 4, 4)}) == message


def test_no_images() -> None:
    op = operator("ChannelShuffle", ["X"], ["Y"], group=2)
    assert run(op, {"X": tensor(0, 4, 2, 2)})[0].shape == (0, 4, 2, 2)

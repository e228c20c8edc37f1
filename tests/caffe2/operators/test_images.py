"""Operators on images: the gradients that Caffe2 itself gets wrong, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_gradient_of_lrn(size: int, order: str) -> None:
    X = image(2, 5, 1, 2) if order == "NCHW" else image(2, 1, 2, 5)
    op = operator("LRN", ["X"], ["Y", "S"], size=size, alpha=0.7, beta=0.75, order=order)
    check_maker(op, {"X": X}, ["X"], of=["Y"])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_the_gradient_of_padding(mode: str) -> None:
    op = operator("PadImage", ["X"], ["Y"], mode=mode, pads=[1, 0, 2, 1])
    check_maker(op, {"X": image(1, 2, 3, 4)}, ["X"])


@pytest.mark.parametrize("op_type", ["ResizeNearest", "UpsampleBilinear"])
def test_the_gradient_of_resizing(op_type: str) -> None:
    op = operator(op_type, ["X"], ["Y"], height_scale=1.7, width_scale=0.6)
    check_maker(op, {"X": image(1, 2, 3, 5)}, ["X"])


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_the_gradients_of_columns(order: str) -> None:
    X = image(1, 2, 3, 4) if order == "NCHW" else image(1, 3, 4, 2)
    args: dict[str, Any] = {"kernel": 2, "stride": 2, "pad": 1, "order": order}
    check_maker(operator("Im2Col", ["X"], ["Y"], **args), {"X": X}, ["X"])
    columns = image(1, 8, 2, 3) if order == "NCHW" else image(1, 2, 3, 8)
    check_maker(operator("Col2Im", ["C", "X"], ["Y"], **args), {"C": columns, "X": X}, ["C"])


@pytest.mark.parametrize(
    ("op_type", "args", "message"),
    [
        ("LRN", {}, "LRN (writes 'Y') needs the argument 'size', an integer."),
        ("LRN", {"size": 0}, "LRN (writes 'Y') has 'size' 0; it must be 1 or more."),
        (
            "PadImage",
            {"pad": 1, "mode": "wrap"},
            "PadImage (writes 'Y') has mode 'wrap', not 'constant', 'reflect' or 'edge'.",
        ),
        (
            "UpsampleBilinear",
            {"width_scale": 0.0},
            "UpsampleBilinear (writes 'Y') has scales [1.0, 0.0]; they must be positive, "
            "and no more than 16777216.",
        ),
        (
            "ResizeNearest",
            {"width_scale": 1.25},
            "ResizeNearest (writes 'Y') cannot be read: its scales [1.0, 1.25] leave the size of "
            "its images as it is. Make them 1, or so large that the size changes.",
        ),
        ("Im2Col", {}, "Im2Col (writes 'Y') needs the argument 'kernel_h', an integer."),
        (
            "Im2Col",
            {"kernel": 3, "dilation_w": 0},
            "Im2Col (writes 'Y') has kernel [3, 3], stride [1, 1] and dilation [1, 0]; all of "
            "them must be positive.",
        ),
    ],
)
def test_refused(op_type: str, args: dict[str, Any], message: str) -> None:
    assert refusal(operator(op_type, ["X"], ["Y"], **args), {"X": image(1, 1, 3, 3)}) == message


def test_images_to_pad_have_four_axes() -> None:
    op = operator("PadImage", ["X"], ["Y"], pad=1)
    assert refusal(op, {"X": image(2, 3, 4)}) == (
        "PadImage (writes 'Y') needs images of rank 4, not FLOAT[2,3,4]."
    )


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_lrn_of_no_images(order: str) -> None:
    op = operator("LRN", ["X"], ["Y"], size=3, alpha=1.0, beta=0.5, order=order)
    assert run(op, {"X": image(0, 2, 2, 2)})[0].shape == (0, 2, 2, 2)

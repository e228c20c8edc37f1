"""Convolutions: the gradients that Caffe2 itself gets wrong or lacks, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator
from tests.caffe2.operators.running import refusal

from whileback.caffe2.reading import TensorSpec


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def feeds(X: tuple[int, ...], W: tuple[int, ...], B: int = 0) -> dict[str, np.ndarray]:
    found = {"X": values(*X, seed=1), "W": values(*W, seed=2)}
    return found | ({"B": values(B, seed=3)} if B else {})


@pytest.mark.parametrize(
    ("op_type", "X", "W", "B", "args"),
    [
        ("Conv", (1, 3, 2, 2, 2), (2, 2, 2, 1, 2), 2, {"kernels": [2, 2, 1], "order": "NHWC"}),
        ("Conv", (1, 2, 3, 3), (2, 2, 2, 2), 2, {"kernel": 2, "no_bias": 1}),
        ("Conv", (1, 2, 4, 3), (2, 1, 3, 3), 0, {"kernel": 3, "group": 2, "legacy_pad": 2}),
        ("ConvTranspose", (1, 2, 2, 2), (2, 2, 2, 2), 2, {"kernel": 2, "no_bias": 1}),
        ("ConvTranspose", (1, 2, 2, 2), (2, 2, 2, 2), 2, {"kernel": 2, "stride": 2, "adj": 1}),
    ],
)
def test_gradients(
    op_type: str, X: tuple[int, ...], W: tuple[int, ...], B: int, args: dict[str, Any]
) -> None:
    given = feeds(X, W, B)
    check_maker(operator(op_type, list(given), ["Y"], **args), given, list(given))


@pytest.mark.parametrize("bias", [0, 2])
def test_the_gradient_of_conv_and_relu(bias: int) -> None:
    given = feeds((1, 2, 3, 3), (2, 2, 2, 2), bias)
    check_maker(operator("ConvRelu", list(given), ["Y"], kernel=2), given, list(given))


def test_no_gradient_to_the_input() -> None:
    op = operator("Conv", ["X", "W", "B"], ["Y"], kernel=2, no_gradient_to_input=1)
    net, found = differentiated(op, ["dY"])
    assert found == [None, "W_grad", "B_grad"]
    assert list(net.op[-1].output) == ["W_grad", "B_grad"]


@pytest.mark.parametrize(
    ("op_type", "args", "message"),
    [
        ("Conv", {}, "Conv (writes 'Y') needs the argument 'kernel', an integer."),
        (
            "Conv",
            {"kernels": [3]},
            "Conv (writes 'Y') has 'kernels' [3], where its input needs 2 numbers.",
        ),
        (
            "Conv",
            {"kernel": 3, "pads": [1, 1]},
            "Conv (writes 'Y') has 'pads' [1, 1], where its input needs 4 numbers.",
        ),
        (
            "Conv",
            {"kernel": 3, "stride": 0},
            "Conv (writes 'Y') has kernel [3, 3], stride [0, 0] and dilation [1, 1]; all of them "
            "must be positive.",
        ),
        (
            "Conv",
            {"kernel": 3, "legacy_pad": 2, "pad": 1},
            "Conv (writes 'Y') has legacy_pad 2, which says the padding, and padding "
            "[1, 1, 1, 1]. Remove one of them.",
        ),
        (
            "Conv",
            {"kernel": 3, "legacy_pad": 7},
            "Conv (writes 'Y') has legacy_pad 7, not 0, 1, 2 or 3.",
        ),
        (
            "Conv",
            {"kernel": 3, "legacy_pad": 3, "dilation": 2},
            "Conv (writes 'Y') has dilation, which legacy_pad does not allow.",
        ),
        (
            "Conv",
            {"kernel": 3, "order": "CHW"},
            "Conv (writes 'Y') has order 'CHW', not 'NCHW' or 'NHWC'.",
        ),
        (
            "ConvTranspose",
            {"kernel": 3, "stride": 2, "adj": 2},
            "ConvTranspose (writes 'Y') has adj [2, 2] and stride [2, 2]; adj must be less than "
            "the stride, and not negative.",
        ),
        (
            "ConvTranspose",
            {"kernel": 3, "legacy_pad": 3},
            "ConvTranspose (writes 'Y') has legacy_pad 3, which only Conv and pools have.",
        ),
    ],
)
def test_refused(op_type: str, args: dict[str, Any], message: str) -> None:
    assert (
        refusal(operator(op_type, ["X", "W"], ["Y"], **args), feeds(*[(1, 1, 5, 5)] * 2)) == message
    )


def test_what_is_needed_of_shapes() -> None:
    op = operator("Conv", ["X", "W"], ["Y"], kernel=3, legacy_pad=2)
    W = TensorSpec(ir.DataType.FLOAT, (1, 1, 3, 3))
    unknown = TensorSpec(ir.DataType.FLOAT, None)
    assert refusal(op, {"X": unknown, "W": W}) == (
        "Conv (writes 'Y') needs the rank of blob 'X', which is not known. "
        "Give its shape with --input X=…"
    )
    flat = TensorSpec(ir.DataType.FLOAT, (2, 3))
    assert refusal(op, {"X": flat, "W": W}) == (
        "Conv (writes 'Y') slides a window over images, but its input is FLOAT[2,3]. "
        "Give it batch, channels, and at least one more axis."
    )
    symbolic = TensorSpec(ir.DataType.FLOAT, ("N", 1, "H", 5))
    assert refusal(op, {"X": symbolic, "W": W}) == (
        "Conv (writes 'Y') has legacy_pad, for which the height and the width of its images have "
        "to be known. Give them as numbers, with --input."
    )

"""The gradients that the makers of functions of one tensor emit, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

SIGNED = np.float32([[-1.7, -0.6, -0.2], [0.3, 0.8, 2.1]])
POSITIVE = np.float32([[0.2, 0.6, 0.9], [1.3, 2.8, 0.05]])
WITHIN = np.float32([[-0.9, -0.6, -0.2], [0.3, 0.5, 0.8]])

CASES: list[tuple[str, np.ndarray, dict[str, Any]]] = [
    *((name, SIGNED, {}) for name in "Abs Atan Cbrt Cos Cosh Cube Erf Exp Negative Sin".split()),
    *((name, SIGNED, {}) for name in "Sinh Sqr Reciprocal Clip Scale ReplaceNaN".split()),
    *((name, SIGNED, {}) for name in "Elu Gelu HardSigmoid LeakyRelu Mish Relu ReluN".split()),
    *((name, SIGNED, {}) for name in "Selu Sigmoid Softplus Softsign Swish Tanh".split()),
    *((name, SIGNED, {}) for name in "ThresholdedRelu Alias Copy".split()),
    *((name, SIGNED, {}) for name in "CopyFromCPUInput EnsureCPUOutput EnsureDense".split()),
    ("AliasWithName", SIGNED, {"name": "z"}),
    *((name, POSITIVE, {}) for name in "Log Rsqrt Sqrt".split()),
    *((name, WITHIN, {}) for name in "Acos Asin Tan".split()),
    ("Logit", POSITIVE, {"eps": 0.07}),
    ("Clip", SIGNED, {"min": -0.7, "max": 0.5}),
    ("Scale", SIGNED, {"scale": -2.5}),
    ("ReluN", SIGNED, {"n": 1.5}),
    *(("LeakyRelu", SIGNED, {"alpha": alpha}) for alpha in (0.3, 0.0, -0.5)),
    *(("Elu", SIGNED, {"alpha": alpha}) for alpha in (0.3, 0.0, -0.5)),
    *(("Selu", SIGNED, {"alpha": alpha, "scale": 1.5}) for alpha in (0.3, 0.0, -0.5)),
    *(("ThresholdedRelu", SIGNED, {"alpha": alpha}) for alpha in (0.4, 0.0, -0.5)),
    *(("HardSigmoid", SIGNED, {"alpha": alpha, "beta": 0.3}) for alpha in (0.4, -0.4)),
    ("Gelu", SIGNED, {"fast_gelu": 1}),
    ("Glu", np.concatenate([SIGNED, POSITIVE]), {"dim": 0}),
    ("Glu", np.stack([SIGNED, POSITIVE], -1), {}),
    *(("Pow", POSITIVE, {"exponent": e}) for e in (2.5, -0.5)),
    *(("Pow", SIGNED, {"exponent": e}) for e in (2.0, 3.0, 1.0, 0.0, -1.0)),
    ("Pow", np.float32([0, 1]), {"exponent": 2.0}),
]


@pytest.mark.parametrize(
    ("op_type", "X", "args"), CASES, ids=[f"{name}{args or ''}" for name, _, args in CASES]
)
def test_the_gradient_is_right(op_type: str, X: np.ndarray, args: dict[str, Any]) -> None:
    check_maker(operator(op_type, ["x"], ["y"], **args), {"x": X}, ["x"])


def test_where_a_nan_is_replaced_no_gradient_flows() -> None:
    X = np.float32([1, np.nan, 3])
    check_maker(operator("ReplaceNaN", ["x"], ["y"], value=2.0), {"x": X}, ["x"])


@pytest.mark.parametrize("args", [{}, {"order": "NHWC"}], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("slopes", [1, 3])
def test_prelu(slopes: int, args: dict[str, Any]) -> None:
    X = np.stack([SIGNED, 2 * SIGNED, POSITIVE], 1 if not args else -1)
    W = np.float32([0.3, -0.2, 0.5])[:slopes]
    check_maker(operator("PRelu", ["x", "w"], ["y"], **args), {"x": X, "w": W}, ["x", "w"])

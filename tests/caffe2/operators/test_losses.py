"""Losses, totals and dropout: their gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run, specs

from whileback import compile
from whileback.caffe2.reading import read
from whileback.formats.caffe2.caffe2_pb2 import NetDef

LABELS = np.int32([2, 0])
SIGNS = np.int32([1, -1, 1])


def numbers(*shape: int, low: float = 0.1, high: float = 0.9) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op_type", "x", "others", "args"),
    [
        ("AveragedLoss", numbers(2, 3), [], {}),
        ("SumElements", numbers(2, 3), [], {"average": 1}),
        ("SumSqrElements", numbers(2, 3), [], {}),
        ("SumSqrElements", numbers(2, 3), [], {"average": 1}),
        ("LpNorm", numbers(2, 3), [], {"p": 1}),
        ("LpNorm", numbers(2, 3), [], {"average": 1}),
        ("LabelCrossEntropy", numbers(2, 3), [LABELS], {}),
        ("LabelCrossEntropy", numbers(3), [LABELS[:1]], {}),
        ("CrossEntropy", numbers(2, 3), [numbers(2, 3)], {}),
        ("SigmoidCrossEntropyWithLogits", numbers(2, 3), [numbers(2, 3)], {}),
        ("SigmoidCrossEntropyWithLogits", numbers(2, 3), [numbers(2, 3)], {"log_D_trick": 1}),
        ("SigmoidCrossEntropyWithLogits", numbers(2, 3), [numbers(2, 3)], {"unjoined_lr_loss": 1}),
        ("SigmoidCrossEntropyWithLogits", np.zeros((1, 2), np.float32), [np.float32([[0, 1]])], {}),
        ("WeightedSigmoidCrossEntropyWithLogits", numbers(3), [numbers(3), numbers(3)], {}),
        ("BernoulliJSD", numbers(2, 3), [numbers(2, 3, low=0.3)], {}),
        ("MakeTwoClass", numbers(3), [], {}),
        ("Perplexity", numbers(3), [], {}),
        ("CosineEmbeddingCriterion", numbers(3), [SIGNS], {"margin": 0.2}),
        ("PairWiseLoss", numbers(4), [np.float32([1, 0, 2, 0])], {}),
        ("PairWiseLoss", numbers(4), [np.float32([1, 0, 2, 1]), np.int32([3, 0, 1])], {}),
    ],
)
def test_gradients(op_type: str, x: np.ndarray, others: list[np.ndarray], args: Any) -> None:
    feeds = {"x": x, **{f"t{k}": other for k, other in enumerate(others)}}
    check_maker(operator(op_type, [*feeds], ["y"], **args), feeds, ["x"])


def test_margin_ranking() -> None:
    feeds = {"a": numbers(3), "b": numbers(3, low=1, high=2), "t": SIGNS}
    check_maker(operator("MarginRankingCriterion", [*feeds], ["y"], margin=0.3), feeds, ["a", "b"])


@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.5])
def test_dropout(ratio: float) -> None:
    feeds = {"x": np.ones((40, 50), np.float32), "s": numbers(40, 50)}
    forward = operator("Dropout", ["x"], ["y", "mask"], ratio=ratio, is_test=0)
    backward = operator("DropoutGrad", ["s", "mask"], ["dx"], ratio=ratio, is_test=0)
    net = NetDef(name="net", op=[forward, backward])
    reading = read(net, specs(feeds), outputs=["y", "mask", "dx"])
    results = compile(reading.model)(feeds)
    kept = results["mask"]
    assert abs(kept.mean() - (1 - ratio)) < 0.05
    np.testing.assert_allclose(results["y"], kept / (1 - ratio), rtol=1e-6)
    np.testing.assert_allclose(results["dx"], feeds["s"] * kept / (1 - ratio), rtol=1e-6)


def test_dropout_in_test() -> None:
    op = operator("Dropout", ["x"], ["y", "mask"], is_test=1)
    check_maker(op, {"x": numbers(2, 3)}, ["x"], ["y"])


def test_perplexity_of_zero() -> None:
    (y,) = run(operator("Perplexity", ["x"], ["y"]), {"x": np.float32([0, 0.5])})
    assert y == np.inf


def test_refused() -> None:
    assert refusal(operator("LpNorm", ["x"], ["y"], p=3), {"x": numbers(2)}) == (
        "LpNorm (writes 'y') has p = 3; there are 1 and 2."
    )
    both = {"log_D_trick": 1, "unjoined_lr_loss": 1}
    op = operator("SigmoidCrossEntropyWithLogits", ["x", "t"], ["y"], **both)
    assert refusal(op, {"x": numbers(2), "t": numbers(2)}) == (
        "SigmoidCrossEntropyWithLogits (writes 'y') has both log_D_trick and unjoined_lr_loss. "
        "Choose one."
    )

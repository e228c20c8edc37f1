"""Features merged into lists: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

RNG = np.random.default_rng(1)
A, B = (RNG.uniform(-2, 2, size).astype(np.float32) for size in (3, 2))
C = RNG.uniform(-2, 2, 3).astype(np.float32)
FEEDS = {
    "n": np.array([1, 0, 2], np.int32),
    "m": np.array([0, 1, 1], np.int32),
    "k": np.array([1, 2, 3]),
    "j": np.array([4, 5]),
    "u": np.array([1, 2, 0], np.int32),
    "v": np.array([1, 1], np.int32),
    "p": np.array([True, True, True]),
    "q": np.array([False, True, True]),
    "a": A,
    "b": B,
    "c": C,
}
SINGLE = {"Scalar": "ap cq", "List": "nap ucq", "Map": "nkap ukcq"}
MULTI = {"Scalar": "nka mjb", "List": "nkua mjvb", "Map": "nkuka mjvjb"}


@pytest.mark.parametrize("kind", SINGLE)
def test_single_features(kind: str) -> None:
    feeds = FEEDS | {"u": np.array([5, 2, 1], np.int32)}
    outputs = ["counts", "keys", "lengths", "maps", "values"]
    wanted = [*outputs[: 2 + list(SINGLE).index(kind)], "values"]
    op = operator(
        f"MergeSingle{kind}FeatureTensors",
        list(SINGLE[kind].replace(" ", "")),
        wanted,
        feature_ids=[11, 12],
    )
    check_maker(op, feeds, ["a", "c"], ["values"])


@pytest.mark.parametrize("kind", MULTI)
def test_multi_features(kind: str) -> None:
    outputs = ["counts", "keys", "lengths", "maps", "values"]
    wanted = [*outputs[: 2 + list(MULTI).index(kind)], "values"]
    inputs = list(MULTI[kind].replace(" ", ""))
    op = operator(f"MergeMulti{kind}FeatureTensors", inputs, wanted)
    check_maker(op, FEEDS, ["a", "b"], ["values"])

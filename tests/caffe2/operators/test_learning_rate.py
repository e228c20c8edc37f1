"""Learning rates: what LearningRate refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import operator
from tests.caffe2.operators.running import refusal

COMPOSITE = {"policy": "composite", "sub_policy_0_policy": "fixed"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            {"policy": "nothing"},
            "has an unknown policy 'nothing'; there are 18: 'fixed', 'step', 'exp', …",
        ),
        (
            {"policy": "step", "gamma": 0.5},
            "needs the argument 'stepsize' to be at least 1; it is 0.",
        ),
        (
            {"policy": "cosine", "period": 0},
            "needs the argument 'period' to be at least 1; it is 0.",
        ),
        (
            {**COMPOSITE, "sub_policy_num_iters": [3, 0]},
            "needs numbers of at least 1 in 'sub_policy_num_iters', not [3, 0].",
        ),
        (
            {
                "policy": "composite",
                "sub_policy_num_iters": [1],
                "sub_policy_0_policy": "composite",
            },
            "has an unknown sub_policy_0_policy 'composite'; did you mean 'compositeCosine' or "
            "'compositeCyclical' or 'cosine'?",
        ),
        (
            {**COMPOSITE, "sub_policy_num_iters": [1, 2]},
            "needs the argument 'sub_policy_1_policy', a string.",
        ),
    ],
)
def test_policies_that_are_refused(args: dict[str, Any], said: str) -> None:
    op = operator("LearningRate", ["t"], ["lr"], base_lr=0.1, **args)
    assert refusal(op, {"t": np.array([0])}) == f"LearningRate (writes 'lr') {said}"


def test_a_rate_needs_its_base() -> None:
    op = operator("LearningRate", ["t"], ["lr"], policy="fixed")
    assert refusal(op, {"t": np.array([0])}) == (
        "LearningRate (writes 'lr') needs the argument 'base_lr', a number."
    )

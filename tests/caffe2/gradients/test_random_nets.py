"""Gradients of random nets, in float64, on the first run of a created net and on the second.

To look for more:

    WHILEBACK_EXAMPLES=5000 .venv/bin/pytest tests/caffe2/gradients/test_random_nets.py
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from tests.caffe2.gradients.interpreter import Arrays, run
from tests.caffe2.gradients.random_nets import RandomNet

from whileback.caffe2.gradients import add_gradient_operators

EXAMPLES = int(os.environ.get("WHILEBACK_EXAMPLES", 200))


def numbers(seed: int, *names: str) -> Arrays:
    draw = random.Random(f"numbers {seed}").uniform
    return {name: np.array([draw(-1, 1)]) for name in names}


def slopes(loss, feeds: Arrays, step: float = 1e-6) -> Arrays:
    """The central differences of a function of numbers."""
    found = {}
    for name, value in feeds.items():
        high, low = (loss(feeds | {name: value + sign * step}) for sign in (1, -1))
        found[name] = (high - low) / (2 * step)
    return found


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_the_gradient_is_the_slope(seed: int) -> None:
    made = RandomNet(seed)
    feeds = numbers(seed, "x", "y", "w")
    with np.errstate(over="ignore", invalid="ignore"):
        forward = run(made.net, feeds)
    if not all(np.abs(value).max() < 1000 for value in forward.values()):
        pytest.skip("its numbers grow too large")
    ys = made.random.sample(sorted(made.sure), 2)
    seeds = numbers(-seed, *(f"{y}_seed" for y in ys))
    wrt = made.random.choice([None, ["x", "y", "w"], ["w"]])
    net, gradients = add_gradient_operators(made.net, {y: f"{y}_seed" for y in ys}, wrt)

    def loss(feeds: Arrays) -> np.ndarray:
        results = run(made.net, feeds)
        return sum(results[y] * seeds[f"{y}_seed"] for y in ys)

    right = slopes(loss, feeds)
    for runs in (1, 2):
        found = run(net, feeds | seeds, runs)
        for name, expected in (forward | seeds).items():
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
        for name in wrt or feeds:
            got = found[gradients[name]] if name in gradients else 0.0
            np.testing.assert_allclose(got, right[name], rtol=1e-4, atol=1e-6, err_msg=name)

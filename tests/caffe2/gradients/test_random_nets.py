"""Gradients of random nets, in float64, on the first run of a created net and on a later one.

To look for more:

    WHILEBACK_EXAMPLES=5000 .venv/bin/pytest tests/caffe2/gradients/test_random_nets.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from tests.caffe2.gradients.interpreter import Arrays, run
from tests.caffe2.gradients.random_nets import RandomNet

from whileback.caffe2.gradients import add_gradient_operators

FLOATS = ["x", "y", "w"]
EXAMPLES = int(os.environ.get("WHILEBACK_EXAMPLES", 200))


def numbers(seed: object, *names: str) -> Arrays:
    draw = random.Random(f"numbers {seed}").uniform
    return {name: np.array([draw(-1, 1)]) for name in names}


def given(seed: object) -> Arrays:
    """What a random net is given: numbers, and numbers of trips."""
    trips = random.Random(f"trips {seed}").sample(range(4), 3)
    counts = {n: np.array(k) for n, k in zip(("one", "two", "three"), trips, strict=True)}
    return numbers(seed, *FLOATS) | counts


def slopes(loss: Callable[[Arrays], np.ndarray], feeds: Arrays, step: float = 1e-6) -> Arrays:
    """The central differences of a function of numbers."""
    found = {}
    for name in FLOATS:
        high, low = (loss(feeds | {name: feeds[name] + sign * step}) for sign in (1, -1))
        found[name] = (high - low) / (2 * step)
    return found


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_the_gradient_is_the_slope(seed: int) -> None:
    made = RandomNet(seed)
    feeds, others = given(seed), given(f"others {seed}")
    with np.errstate(over="ignore", invalid="ignore"):
        forward, other = run(made.net, feeds), run(made.net, others)
    if not all(np.abs(x).max() < 1000 for x in (*forward.values(), *other.values())):
        pytest.skip("its numbers grow too large")
    ys = made.random.sample(sorted(made.sure), 2)
    seeds = numbers(f"seeds {seed}", *(f"{y}_seed" for y in ys))
    wrt = made.random.choice([None, FLOATS, ["w"]])
    net, gradients = add_gradient_operators(made.net, {y: f"{y}_seed" for y in ys}, wrt)

    def loss(feeds: Arrays) -> np.ndarray:
        results = run(made.net, feeds)
        return sum(results[y] * seeds[f"{y}_seed"] for y in ys)

    right = slopes(loss, feeds)
    # The second time after a run with other branches and numbers of trips.
    for before in ([], [others | seeds]):
        found = run(net, *before, feeds | seeds)
        for name, expected in (forward | seeds).items():
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
        for name in wrt or FLOATS:
            got = found[gradients[name]] if name in gradients else 0.0
            np.testing.assert_allclose(got, right[name], rtol=1e-4, atol=1e-6, err_msg=name)

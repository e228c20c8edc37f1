"""Random models with nested loops and branches: their gradients agree with finite differences."""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.judge import assert_gradient
from tests.random_models import WRT, random_model

RANDOM = st.randoms(use_true_random=False)


@pytest.mark.filterwarnings("ignore:No value in of= depends on")
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(RANDOM, st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 99))
def test_random_models(random: Random, n: int, m: int, flag: bool, seed: int) -> None:
    inputs = {"n": n, "m": m, "flag": np.array(flag), "x": [0.5, -1.25]}
    assert_gradient(random_model(random), ["y"], WRT, inputs, seed=seed)

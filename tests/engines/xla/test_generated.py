"""Random models with nested loops and branches: the engine agrees, and copies no stack."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.xla.test_in_place import copies
from tests.judge import parse
from tests.random_models import WRT, random_model

from whileback.engines import compile
from whileback.engines.xla.model import Model
from whileback.gradient import vjp

RANDOM = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
ROWS = 67


def arguments(model: Any, n: int, m: int, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n + 10 * m)
    shapes = {"x": (2,), "w": (2,), "W": (2, 2), "table": (rows, 2), "y_grad": (2,)}
    dtype = model.graph.inputs[0].dtype.numpy()
    feeds = {k: rng.normal(size=shape).astype(dtype) for k, shape in shapes.items()}
    feeds |= {"n": np.array(n), "m": np.array(m), "flag": np.array(True)}
    return {str(value.name): feeds[str(value.name)] for value in model.graph.inputs}


@pytest.mark.filterwarnings("ignore:No value in of= depends on")
@settings(RANDOM, max_examples=12)
@given(st.randoms(use_true_random=False), st.integers(0, 3), st.integers(0, 2))
def test_random_gradients_are_those_of_onnxruntime(random: Random, n: int, m: int) -> None:
    gradient = vjp(parse(random_model(random, sequences=False)), "y", WRT)
    given = arguments(gradient, n, m, 3)
    wanted = compile(gradient, threads=1)(given)
    for name, value in compile(gradient, "xla")(given).items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore:No value in of= depends on")
@settings(RANDOM, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_random_gradients_copy_no_stack_in_a_loop(random: Random) -> None:
    text = random_model(random, sequences=False).replace("[3,2] table", f"[{ROWS},2] table")
    gradient = vjp(parse(text), "y", WRT)
    model = Model.of("m", gradient)
    given = arguments(gradient, 61, 53, ROWS)
    model.run(given)
    assert copies(model.text(given), range(50, 70)) == []

"""Models as parts of other programs: parameters and statistics are inputs."""

import numpy as np
from tests.judge import parse
from tests.trainer import models

import whileback
from whileback.training.embedded import embedded


def test_parameters_and_statistics_are_inputs() -> None:
    model = models.model()
    part = embedded(model)
    assert (part.inputs, part.outputs) == (["x"], ["p"])
    assert [*part.parameters] == ["s", "c", "w", "b"] and [*part.statistics] == ["m", "v"]
    assert not part.following and part.seed is None
    assert {value.name for value in part.model.graph.inputs} == {"x", *"scwbmv"}
    x = models.data(rows=5)["x"]
    got = whileback.compile(part.model)({**part.parameters, **part.statistics}, x=x)
    np.testing.assert_allclose(got["p"], whileback.compile(model)(x=x)["p"], 1e-6)


def test_statistics_in_training() -> None:
    part = embedded(models.model(), "w", training=True)
    assert [*part.parameters] == ["w"]
    assert part.following == {"m": "m_next", "v": "v_next"}
    x = models.data(rows=5)["x"]
    got = whileback.compile(part.model)({**part.parameters, **part.statistics}, x=x)
    np.testing.assert_allclose(got["m_next"], 0.1 * x.mean(0), 1e-5)
    np.testing.assert_allclose(got["v_next"], 0.9 + 0.1 * x.var(0, ddof=1), 1e-5)


def test_weights_of_bodies_and_of_old_models() -> None:
    body = parse("""(float[2] x, int64 n) => (float[2] y) {
        y = Loop(n, "", x) <body = trip (int64 i, bool c, float[2] v) => (bool d, float[2] z)
            <float[2] w = {2, 3}> { d = Identity(c) z = Mul(v, w) }>
    }""")
    body.graph.node(0).name = "rnn"
    assert [*embedded(body).parameters] == ["rnn/body/w"]
    old = parse("(float[2] x, float[2] w) => (float[2] y) <float[2] w = {2, 3}> { y = Mul(x, w) }")
    part = embedded(old)
    assert part.inputs == ["x"] and [*part.parameters] == ["w"]
    assert not part.model.graph.initializers


def test_draws_have_a_seed() -> None:
    model = parse(
        "(float[N] x) => (float[N] y) <bool t = {1}, float r = {0.5}> "
        "{ y, mask = Dropout(x, r, t) }"
    )
    assert embedded(model).seed is None
    part = embedded(model, training=True)
    f = whileback.compile(part.model)
    x = np.ones(100, np.float32)
    first, again, other = (f(x=x, **{part.seed: n})["y"] for n in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_model_without_parameters() -> None:
    part = embedded(parse("(float[N] x) => (float[N] y) { y = Exp(x) }"))
    assert not part.parameters and part.inputs == ["x"]

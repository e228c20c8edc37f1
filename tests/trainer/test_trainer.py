"""`Trainer` makes the steps that calls of the step itself make, to the last bit."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse
from tests.trainer.models import Arrays, data, model, trainer

import whileback
from whileback import training
from whileback.errors import ArgumentError, TrainingError

ENGINES = ("onnxruntime", "xla")


def part(rows: slice) -> Arrays:
    return {name: array[rows] for name, array in data().items()}


@pytest.mark.parametrize(("engine", "optimizer"), [("onnxruntime", "adam"), ("xla", "sgd")])
def test_the_steps_are_those_of_the_model(engine: str, optimizer: str) -> None:
    one = training.step(model(), "cross-entropy", optimizer)
    f, following = whileback.compile(one, engine), whileback.names(one)
    trained = training.Trainer(one, engine)
    kept = trained.state()
    # Each other size is another program on XLA; `test_carrying` has these.
    last = slice(40, 50) if engine == "onnxruntime" else slice(30, 50)
    for rows in (slice(0, 20), slice(20, 40), last, slice(0, 20)):
        out = f(kept, **part(rows), learning_rate=0.1)
        kept = {name: out[new] for name, new in following.items()}
        assert trained.step(part(rows), learning_rate=0.1) == {"loss": float(out["loss"])}
    state = trained.state()
    assert list(state) == list(following)
    assert {"w", "m", "v"} < state.keys()
    for name, array in kept.items():
        assert np.array_equal(state[name], array)
        assert state[name].dtype == array.dtype
    assert trained.steps == state.get("steps", 4) == 4


@pytest.mark.parametrize("engine", ENGINES)
def test_evaluation_is_the_original_with_these_parameters(engine: str) -> None:
    trained = trainer(engine, "sgd")
    for _ in range(3):
        trained.step(part(slice(0, 20)), 0.1)
    before = trained.state()
    found = trained.evaluate(part(slice(20, 27)))
    original = model()
    for name in ("s", "c", "m", "v", "w", "b"):
        original.graph.initializers[name].const_value = ir.tensor(before[name], name=name)
    p = whileback.compile(original)(x=part(slice(20, 27))["x"])["p"]
    np.testing.assert_allclose(found.outputs["p"], p, rtol=1e-5, atol=1e-6)
    labels = part(slice(20, 27))["label"]
    loss = -np.log(p[np.arange(7), labels]).mean()
    assert found.losses["loss"] == pytest.approx(loss, rel=1e-5)
    for name, array in trained.state().items():
        assert np.array_equal(array, before[name])


def test_a_state_is_put_back() -> None:
    first, second = trainer(), trainer()
    first.step(part(slice(0, 20)), 0.1)
    second.load(first.state(), first.steps)
    assert first.step(part(slice(20, 50)), 0.1) == second.step(part(slice(20, 50)), 0.1)
    assert second.steps == 2
    for name, array in first.state().items():
        assert np.array_equal(array, second.state()[name])


def test_seeds() -> None:
    """What is dropped is decided by the seed and the number of the call, and by nothing else."""
    dropping = parse(
        """(float[N,64] x) => (float[N,1] y)
        <float[64,1] w = {ONES}, float r = {0.5}, bool t = {1}> {
            d = Dropout(x, r, t)
            y = MatMul(d, w)
        }""".replace("ONES", ",".join(["1"] * 64))
    )
    step = training.step(dropping, "mse", "sgd")
    batch = {"x": np.ones((2, 64), "f"), "label": np.zeros((2, 1), "f")}
    losses = []
    for seed in (None, 0, 1, 1):
        trained = training.Trainer(step, seed=seed)
        losses.append([trained.step(batch, 0.0)["loss"] for _ in range(3)])
    assert losses[0] == losses[1]
    assert losses[2] == losses[3]
    assert len(set(losses[0] + losses[2])) == 6


def test_errors() -> None:
    trained = trainer()
    state = trained.state()
    del state["w"], state["steps"]
    with pytest.raises(ArgumentError) as caught:
        trained.load(state)
    assert str(caught.value) == (
        "The state lacks 'w', 'steps', which step 'model' keeps. Load a state of the same step."
    )
    with pytest.raises(ArgumentError) as caught:
        training.Trainer(training.step(model(), "cross-entropy", "sgd")).evaluate(data())
    assert str(caught.value) == (
        "This Trainer has no model to evaluate. Make it with "
        "Trainer(step, evaluation=whileback.training.evaluation(model, loss, step))."
    )
    batch = data()
    batch["x"][3, 1] = np.nan
    with pytest.raises(TrainingError) as caught:
        trained.step(batch, 0.1)
    assert str(caught.value) == (
        "loss is nan in step 1. Take a smaller learning rate or limit gradients with clip_norm=, "
        "and see that the data holds no NaN; go on from a checkpoint."
    )


def test_names_that_are_imported_when_asked_for() -> None:
    from whileback import trainer as running

    for name in running.__all__:
        assert getattr(training, name) is getattr(running, name)
        assert name in training.__all__
    with pytest.raises(AttributeError) as caught:
        training.Trainor  # noqa: B018
    assert str(caught.value) == "module 'whileback.training' has no attribute 'Trainor'"

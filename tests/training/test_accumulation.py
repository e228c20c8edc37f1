"""Gradients of several calls, and averages: what changes when, and what that is equal to.

That both are what PyTorch makes, step for step, is in `test_optimizers.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse
from tests.training.models import MLP, Arrays, signs, with_weights

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.gradient import names
from whileback.graph.scopes import walk
from whileback.training import interface, mse, step


def kept_after(one: ir.Model, batches: list[Arrays], engine: str = "onnxruntime") -> Arrays:
    """Return what is kept after one call for each batch."""
    f, kept = compile(one, engine=engine), {}
    for batch in batches:
        out = f(kept | batch, learning_rate=0.1)
        kept = {old: np.asarray(out[new]) for old, new in names(one).items()}
    return kept


def parts(batch: Arrays, count: int) -> list[Arrays]:
    rows = len(batch["x"]) // count
    return [{k: v[i * rows : (i + 1) * rows] for k, v in batch.items()} for i in range(count)]


@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
def test_parts_of_a_batch_make_the_step_of_the_whole(engine: str) -> None:
    options: Any = {"clip_norm": 0.1, "average": 0.9}
    whole = step(with_weights(MLP), "cross-entropy", "adamw", **options)
    several = step(with_weights(MLP), "cross-entropy", "adamw", accumulate=3, **options)
    batches = [signs(60, seed) for seed in range(2)]
    expected = kept_after(whole, batches)
    found = kept_after(several, [part for batch in batches for part in parts(batch, 3)], engine)
    assert found["steps"] == 2
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def test_nothing_but_sums_changes_before() -> None:
    one = step(with_weights(MLP), "cross-entropy", "adamw", accumulate=3, average=0.9)
    first, second, third = (kept_after(one, parts(signs(60), 3)[:count]) for count in (1, 2, 3))
    for name, value in first.items():
        stays = not name.endswith("_sum") and name != "accumulated"
        assert np.array_equal(value, second[name]) == stays, name
    assert (first["accumulated"], second["accumulated"], third["accumulated"], first["steps"]) == (
        1,
        2,
        0,
        0,
    )
    assert not any(third[name].any() for name in third if name.endswith("_sum"))


def test_what_makes_the_step_is_run_in_the_last_call_alone() -> None:
    """All of the optimizer is in a branch, and the other branch has one addition for a sum."""
    one = step(with_weights(MLP), "cross-entropy", "adamw", accumulate=3, average=0.9)
    (choice,) = (node for node in walk(one.graph) if node.op_type == "If")
    outside = [str(node.name) for node in one.graph]
    assert not any("/adamw/" in name or "/average/" in name for name in outside)
    waiting = [node.op_type for node in choice.attributes["else_branch"].as_graph()]
    assert waiting.count("Add") == 4
    assert set(waiting) == {"Add", "Identity"}


def test_running_statistics_follow_every_call() -> None:
    text = """(float[N,3] x) => (float[N,3] y) <float[3] s = {1,2,3}, float[3] b = {0,1,2},
        float[3] m = {0,0,0}, float[3] v = {1,1,1}> { y = BatchNormalization(x, s, b, m, v) }"""
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f")
    batches = [{"x": x, "label": x}] * 2
    several = kept_after(step(parse(text), mse(), "sgd", accumulate=4), batches)
    each = kept_after(step(parse(text), mse(), "sgd"), batches)
    np.testing.assert_array_equal(several["m"], each["m"])
    assert several["m"].any()


def test_an_average_begins_with_the_parameter() -> None:
    one = step(with_weights(MLP), "cross-entropy", "sgd", "w*", average=0.9)
    known = interface(one)
    assert known.averages == {"w0": "w0_average", "w1": "w1_average"}
    assert known.state == ["steps", "w0_average", "w1_average"]
    for name, average in known.averages.items():
        before = (one.graph.initializers[each].const_value for each in (name, average))
        np.testing.assert_array_equal(*(tensor.numpy() for tensor in before if tensor))
    first, second = (kept_after(one, [signs(20)] * count) for count in (1, 2))
    np.testing.assert_array_equal(first["w0"], first["w0_average"])
    assert not np.array_equal(second["w0"], second["w0_average"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate=0 is no number of calls. Give a whole one from 1."),
        ({"accumulate": 2.5}, "accumulate=2.5 is no number of calls. Give a whole one from 1."),
        ({"average": 1.0}, "average=1.0 is no decay. Give a number from 0 and below 1."),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        step(with_weights(MLP), "cross-entropy", "adamw", **options)
    assert str(caught.value) == message

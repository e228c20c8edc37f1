"""Groups of parameters: each is trained as its group says; what is said of none, or by two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.training.models import MLP, signs, with_weights

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.training import Group, adamw, interface, sgd, step


def after(**options: Any) -> dict[str, np.ndarray]:
    """Return what becomes of parameters in the first step."""
    one = step(with_weights(MLP), "cross-entropy", **options)
    return compile(one)(signs(50), learning_rate=0.1)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adafactor"])
def test_a_group_is_trained_as_if_all_were(optimizer: str) -> None:
    groups = Group("w*", rate=0.5, optimizer=adamw(weight_decay=0.3))
    out = after(optimizer=optimizer, groups=groups)
    others = after(optimizer=optimizer)
    own = after(optimizer=adamw(weight_decay=0.3), groups=Group("*", rate=0.5))
    for name in ("w0", "w1", "b0", "b1"):
        expected = own if name.startswith("w") else others
        np.testing.assert_array_equal(out[f"{name}_next"], expected[f"{name}_next"])


def test_a_rate_of_0_leaves_a_parameter() -> None:
    out = after(optimizer=adamw(weight_decay=0.3), groups=[Group("w0", rate=0.0)])
    model = with_weights(MLP)
    for name in ("w0", "w1"):
        before = model.graph.initializers[name].const_value
        assert before is not None
        assert np.array_equal(out[f"{name}_next"], before.numpy()) == (name == "w0")


def test_no_decay_holds_in_groups() -> None:
    out = after(optimizer="sgd", groups=Group("*", weight_decay=0.5), no_decay="w0")
    expected = after(optimizer="sgd"), after(optimizer=sgd(weight_decay=0.5))
    for name, each in (("w0", expected[0]), ("w1", expected[1])):
        np.testing.assert_array_equal(out[f"{name}_next"], each[f"{name}_next"])


def test_state_is_that_of_the_own_optimizer() -> None:
    groups = [Group("w0", optimizer="adam"), Group("w1", optimizer=sgd(momentum=0.9))]
    one = step(with_weights(MLP), "cross-entropy", "sgd", groups=groups)
    assert interface(one).state == ["steps", "w0_mean", "w0_square", "w1_momentum"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Group("*", rate=-1.0),
            "Group('*') has rate=-1.0. Give a number from 0.",
        ),
        (
            lambda: Group("*", weight_decay=float("nan")),
            "Group('*') has weight_decay=nan. Give a number from 0.",
        ),
        (
            lambda: Group("*", optimizer="sdg"),
            "optimizer='sdg' is unknown; did you mean 'sgd'?",
        ),
        (
            lambda: after(optimizer="sgd", groups=[{"*": 1.0}]),
            "groups= has {'*': 1.0}. Give whileback.training.Group(patterns, …), or several.",
        ),
        (
            lambda: after(optimizer="sgd", groups=Group("bias")),
            "groups= has 'bias', which fits none of the names of tensors that can be trained; "
            "there are 4: 'w0', 'b0', 'w1', 'b1'",
        ),
        (
            lambda: after(optimizer="sgd", groups=[Group("w*"), Group(["b1", "*1"])]),
            "groups= has 'w1' twice, by 'w*' and by ['b1', '*1']: a parameter is in one group. "
            "Narrow one of the patterns.",
        ),
    ],
)
def test_groups_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message

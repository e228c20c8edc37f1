"""Optimizers: the first 100 steps are those of PyTorch, and of optax for Lion, as recorded.

So it is with groups of parameters, with gradients of several calls and with averages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError
from whileback.gradient import names
from whileback.training import (
    OPTIMIZERS,
    Group,
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamw,
    interface,
    lion,
    nadam,
    radam,
    rmsprop,
    sgd,
    step,
)

DATA = np.load(Path(__file__).parent / "data" / "optimizers.npz")
PROBLEM = """(float[5,4] A, float[5,3] B, float[6] c, float[2,2,2] e) => (float l)
    <float[4,3] W = {0,0,0, 0,0,0, 0,0,0, 0,0,0}, float[6] b = {0,0,0,0,0,0},
     float[2,2,2] T = {0,0,0,0, 0,0,0,0}, float half = {0.5}> {
    P = MatMul(A, W)
    D = Sub(P, B)
    s = ReduceSumSquare<keepdims = 0>(D)
    h = Mul(s, half)
    S = Sin(b)
    C = Mul(c, S)
    t = ReduceSum<keepdims = 0>(C)
    R = Sin(T)
    E = Mul(e, R)
    u = ReduceSum<keepdims = 0>(E)
    l = Sum(h, t, u)
}"""
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": ("sgd", {}),
    "sgd-momentum": (sgd(momentum=0.9, weight_decay=0.01), {}),
    "sgd-nesterov": (sgd(momentum=0.9, nesterov=True), {}),
    "sgd-dampening": (sgd(momentum=0.9, dampening=0.3), {}),
    "adam": (adam(weight_decay=0.1), {}),
    "adam-amsgrad": (adam(amsgrad=True), {}),
    "adamw": ("adamw", {}),
    "adamw-betas": (adamw(betas=(0.8, 0.95), weight_decay=0.1), {}),
    "adamax": (adamax(weight_decay=0.1), {}),
    "nadam": (nadam(weight_decay=0.1), {}),
    "radam": (radam(weight_decay=0.1), {}),
    "adadelta": (adadelta(weight_decay=0.1), {}),
    "adagrad": ("adagrad", {}),
    "adagrad-decay": (adagrad(rate_decay=0.02, initial=0.1), {}),
    "rmsprop": ("rmsprop", {}),
    "rmsprop-centered": (rmsprop(centered=True, momentum=0.9), {}),
    "lion": (lion(weight_decay=0.1), {}),
    "adafactor": ("adafactor", {}),
    "adafactor-decay": (adafactor(eps=(1e-3, 0.3), d=1.2, weight_decay=0.1), {}),
    "clip-norm": (sgd(momentum=0.9), {"clip_norm": 1.5}),
    "clip-value": (sgd(momentum=0.9), {"clip_value": 0.3}),
    "no-decay": (adamw(weight_decay=0.2), {"no_decay": ["b", "T*"]}),
    "groups": (
        "adamw",
        {
            "groups": [
                Group("W", weight_decay=0.2),
                Group(["b"], rate=3.0, weight_decay=0.0),
                Group("T*", rate=0.3, optimizer=adamw(betas=(0.5, 0.9))),
            ]
        },
    ),
    "accumulate": ("adamw", {"accumulate": 4, "clip_norm": 1.0}),
    "average": (sgd(momentum=0.9), {"average": 0.95}),
    "accumulate-average": ("sgd", {"accumulate": 3, "average": 0.8}),
}


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("name", CASES)
def test_100_steps(name: str, dtype: str) -> None:
    optimizer, options = CASES[name]
    one = step(parse(PROBLEM.replace("float", dtype)), "output", optimizer, **options)
    f, rate, known = compile(one), DATA[f"{name}.rate"], interface(one)
    given = {key: DATA[key].astype({"float": "f", "double": "d"}[dtype]) for key in "ABceWbT"}
    data, feeds = ({key: given[key] for key in keys} for keys in ("Bce", "WbT"))
    feeds |= {average: feeds[key] for key, average in known.averages.items()}
    for number, (A, expected) in enumerate(zip(given["A"], DATA[f"{name}.after"], strict=True)):
        now = np.float32(rate * (1 - number / 200))
        out = f(feeds, A=A, **data, learning_rate=now)
        feeds = {old: out[new] for old, new in names(one).items()}
        after = np.concatenate([feeds[known.averages.get(key, key)].ravel() for key in "WbT"])
        np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-5, err_msg=f"step {number}")


def test_every_optimizer_is_recorded() -> None:
    recorded = {key.removesuffix(".after") for key in DATA.files if key.endswith(".after")}
    assert recorded == set(CASES)
    assert {name for name in OPTIMIZERS if name not in CASES} == set()


@pytest.mark.parametrize("name", CASES)
def test_first_values_are_defaults(name: str) -> None:
    optimizer, options = CASES[name]
    f = compile(step(parse(PROBLEM), "output", optimizer, **options))
    out = f(A=DATA["A"][0], B=DATA["B"], c=DATA["c"], e=DATA["e"], learning_rate=0.0)
    assert not any(out[f"{key}_next"].any() for key in "WbT")
    assert set(f.inputs) - f.defaults == {"A", "B", "c", "e", "learning_rate"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sgd(nesterov=True),
            "sgd(nesterov=True) needs momentum above 0 and no dampening, but momentum=0.0 and "
            "dampening=0.0. Change them, or leave nesterov out.",
        ),
        (lambda: sgd(momentum=-1), "sgd(momentum=…) has -1; give a number from 0."),
        (lambda: adam(betas=(0.9, 1)), "adam(betas=…) has 1; give a number from 0 and below 1."),
        (lambda: adamw(betas=(2, 0)), "adamw(betas=…) has 2; give a number from 0 and below 1."),
        (lambda: lion(betas=(2, 0)), "lion(betas=…) has 2; give a number from 0 and below 1."),
        (lambda: rmsprop(alpha=1), "rmsprop(alpha=…) has 1; give a number from 0 and below 1."),
        (lambda: adamax(betas=(2, 0)), "adamax(betas=…) has 2; give a number from 0 and below 1."),
        (lambda: nadam(betas=(2, 0)), "nadam(betas=…) has 2; give a number from 0 and below 1."),
        (lambda: radam(betas=(2, 0)), "radam(betas=…) has 2; give a number from 0 and below 1."),
        (lambda: adadelta(rho=1), "adadelta(rho=…) has 1; give a number from 0 and below 1."),
        (lambda: sgd(weight_decay=-1), "sgd(weight_decay=…) has -1; give a number from 0."),
        (lambda: adam(eps=-1), "adam(eps=…) has -1; give a number from 0."),
        (lambda: adamax(eps=-1), "adamax(eps=…) has -1; give a number from 0."),
        (lambda: nadam(eps=-1), "nadam(eps=…) has -1; give a number from 0."),
        (lambda: radam(eps=-1), "radam(eps=…) has -1; give a number from 0."),
        (lambda: adadelta(eps=-1), "adadelta(eps=…) has -1; give a number from 0."),
        (lambda: adagrad(initial=-1), "adagrad(initial=…) has -1; give a number from 0."),
        (lambda: rmsprop(eps=-1), "rmsprop(eps=…) has -1; give a number from 0."),
        (lambda: rmsprop(momentum=-1), "rmsprop(momentum=…) has -1; give a number from 0."),
        (lambda: adafactor(d=0.5), "adafactor(d=…) has 0.5; give a number from 1."),
        (
            lambda: step(parse(PROBLEM), "output", "rmspropp"),
            "optimizer='rmspropp' is unknown; did you mean 'rmsprop'?",
        ),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message

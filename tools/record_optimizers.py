"""Record what PyTorch's optimizers and losses do, and optax's Lion, for the tests of training.

    python tools/record_optimizers.py tests/training/data

Run by an interpreter that has PyTorch, JAX and optax; the tests need only what it writes. The
problem is a small one, 0.5·‖A·W - B‖² + Σ c·sin b + Σ e·sin T, with another A in every step, so
that everything is about the optimizers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import torch
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS = 100
Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Case:
    """An optimizer, its learning rate at first, and what is done around it."""

    rate: float
    make: Make
    norm: float | None = None
    limit: float | None = None
    # So many gradients go into one step.
    every: int = 1
    # The decay of the average that is recorded in place of the parameters.
    average: float | None = None


def grouped(p: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Return AdamW with three groups; `factor` is to the rate."""
    groups = [
        {"params": p[:1], "weight_decay": 0.2},
        {"params": p[1:2], "weight_decay": 0.0, "factor": 3.0},
        {"params": p[2:], "betas": (0.5, 0.9), "factor": 0.3},
    ]
    return torch.optim.AdamW(groups)


TORCH: dict[str, Case] = {
    "sgd": Case(0.05, lambda p: torch.optim.SGD(p)),
    "sgd-momentum": Case(0.02, lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=0.01)),
    "sgd-nesterov": Case(0.02, lambda p: torch.optim.SGD(p, momentum=0.9, nesterov=True)),
    "sgd-dampening": Case(0.02, lambda p: torch.optim.SGD(p, momentum=0.9, dampening=0.3)),
    "adam": Case(0.01, lambda p: torch.optim.Adam(p, weight_decay=0.1)),
    "adam-amsgrad": Case(0.02, lambda p: torch.optim.Adam(p, amsgrad=True)),
    "adamw": Case(0.01, lambda p: torch.optim.AdamW(p)),
    "adamw-betas": Case(0.01, lambda p: torch.optim.AdamW(p, betas=(0.8, 0.95), weight_decay=0.1)),
    "adamax": Case(0.02, lambda p: torch.optim.Adamax(p, weight_decay=0.1)),
    "nadam": Case(0.01, lambda p: torch.optim.NAdam(p, weight_decay=0.1)),
    "radam": Case(0.02, lambda p: torch.optim.RAdam(p, weight_decay=0.1)),
    "adadelta": Case(1.0, lambda p: torch.optim.Adadelta(p, weight_decay=0.1)),
    "adagrad": Case(0.1, lambda p: torch.optim.Adagrad(p)),
    "adagrad-decay": Case(
        0.1,
        lambda p: torch.optim.Adagrad(p, lr_decay=0.02, initial_accumulator_value=0.1),
    ),
    "rmsprop": Case(0.01, lambda p: torch.optim.RMSprop(p)),
    "rmsprop-centered": Case(0.01, lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9)),
    "adafactor": Case(0.05, lambda p: torch.optim.Adafactor(p)),
    "adafactor-decay": Case(
        0.05,
        lambda p: torch.optim.Adafactor(p, eps=(1e-3, 0.3), weight_decay=0.1, d=1.2),
    ),
    "clip-norm": Case(0.05, lambda p: torch.optim.SGD(p, momentum=0.9), norm=1.5),
    "clip-value": Case(0.05, lambda p: torch.optim.SGD(p, momentum=0.9), limit=0.3),
    "no-decay": Case(
        0.05,
        lambda p: torch.optim.AdamW(
            [{"params": p[:1], "weight_decay": 0.2}, {"params": p[1:], "weight_decay": 0.0}]
        ),
    ),
    "groups": Case(0.02, grouped),
    "accumulate": Case(0.05, lambda p: torch.optim.AdamW(p), norm=1.0, every=4),
    "average": Case(0.02, lambda p: torch.optim.SGD(p, momentum=0.9), average=0.95),
    "accumulate-average": Case(0.05, lambda p: torch.optim.SGD(p), every=3, average=0.8),
}


def problem() -> dict[str, np.ndarray]:
    """Return the data, in float32."""
    random = np.random.default_rng(7)
    return {
        "A": random.normal(size=(STEPS, 5, 4)).astype("f"),
        "B": random.normal(size=(5, 3)).astype("f"),
        "c": random.normal(size=6).astype("f"),
        "W": random.normal(size=(4, 3)).astype("f"),
        "b": random.normal(size=6).astype("f"),
        "e": random.normal(size=(2, 2, 2)).astype("f"),
        "T": random.normal(size=(2, 2, 2)).astype("f"),
    }


def loss(library: Any, data: dict[str, Any], A: Any, W: Any, b: Any, T: Any) -> Any:
    """Return the loss of one step, in the functions of a library."""
    squares = 0.5 * ((A @ W - data["B"]) ** 2).sum()
    return squares + (data["c"] * library.sin(b)).sum() + (data["e"] * library.sin(T)).sum()


def by_torch(case: Case, data: dict[str, np.ndarray]) -> np.ndarray:
    """Return the parameters, joined, after each gradient of an optimizer of PyTorch's."""
    values = {key: torch.tensor(array, dtype=torch.float64) for key, array in data.items()}
    parameters = torch.nn.ParameterList(values[key].clone() for key in "WbT")
    optimizer = case.make(list(parameters))
    average = AveragedModel(parameters, multi_avg_fn=get_ema_multi_avg_fn(case.average or 0.0))
    after = []
    for step in range(STEPS):
        total = loss(torch, values, values["A"][step], *parameters)
        (total / case.every).backward()
        if (step + 1) % case.every == 0:
            update(case, optimizer, list(parameters), case.rate * (1 - step / 200))
            average.update_parameters(parameters)
        results = parameters if case.average is None else average.module
        after.append(joined(p.detach().numpy() for p in results))
    return np.stack(after)


def update(
    case: Case,
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.nn.Parameter],
    rate: float,
) -> None:
    """Make one step of an optimizer, with its gradients cut, and forget these."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)
    if case.norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters, case.norm)
    if case.limit is not None:
        torch.nn.utils.clip_grad_value_(parameters, case.limit)
    optimizer.step()
    optimizer.zero_grad()


def by_optax(data: dict[str, np.ndarray]) -> np.ndarray:
    """Return the same of optax's Lion."""
    jax.config.update("jax_enable_x64", True)
    values = {key: np.asarray(array, np.float64) for key, array in data.items()}
    parameters = tuple(jax.numpy.asarray(values[key]) for key in "WbT")
    slope = jax.grad(lambda p, A: loss(jax.numpy, values, A, *p))
    transform = optax.inject_hyperparams(optax.lion)(0.0, b1=0.9, b2=0.99, weight_decay=0.1)
    state, after = transform.init(parameters), []
    for step in range(STEPS):
        state.hyperparams["learning_rate"] = 0.003 * (1 - step / 200)
        changes, state = transform.update(slope(parameters, values["A"][step]), state, parameters)
        parameters = optax.apply_updates(parameters, changes)
        after.append(joined(map(np.asarray, parameters)))
    return np.stack(after)


def joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the elements of all arrays."""
    return np.concatenate([array.ravel() for array in arrays])


def losses() -> dict[str, np.ndarray]:
    """Return inputs, and of every loss its value and its gradient, in float64."""
    random = np.random.default_rng(8)
    data = {
        "x": random.normal(size=(6, 4)) * 2,
        "t": random.normal(size=(6, 4)),
        "p": random.uniform(size=(6, 4)),
        "q": random.dirichlet(np.ones(4), size=6),
        "y": np.array([0, 3, 1, 1, 2, 0]),
        "w": random.uniform(0.5, 2, size=4),
    }
    data["p"][0, 0], data["q"][0] = 0.0, [0, 1, 0, 0]
    X = torch.tensor(data["x"], requires_grad=True)
    t, p, q, y, w = (torch.tensor(data[key]) for key in "tpqyw")
    log = functional.log_softmax(X, 1)
    results = {
        "cross-entropy": functional.cross_entropy(X, y),
        "cross-entropy-weights": functional.cross_entropy(X, y, w),
        "cross-entropy-ignore": functional.cross_entropy(X, y, w, ignore_index=1),
        "cross-entropy-smooth": functional.cross_entropy(X, y, label_smoothing=0.1),
        "cross-entropy-all": functional.cross_entropy(X, y, w, ignore_index=1, label_smoothing=0.1),
        "cross-entropy-sum": functional.cross_entropy(
            X, y, w, label_smoothing=0.1, reduction="sum"
        ),
        "nll": functional.nll_loss(log, y, w, ignore_index=0),
        "binary-cross-entropy": functional.binary_cross_entropy_with_logits(X, p),
        "mse": functional.mse_loss(X, t),
        "mse-sum": functional.mse_loss(X, t, reduction="sum"),
        "l1": functional.l1_loss(X, t),
        "huber": functional.huber_loss(X, t, delta=0.7),
        "kl": functional.kl_div(log, q, reduction="batchmean"),
        "kl-mean": functional.kl_div(log, q, reduction="mean"),
        "cosine": (1 - functional.cosine_similarity(X, t, dim=1)).mean(),
    }
    for name, value in results.items():
        (slope,) = torch.autograd.grad(value, X, retain_graph=True)
        data[f"{name}.value"], data[f"{name}.slope"] = value.detach().numpy(), slope.numpy()
    return data


def main() -> None:
    """Write `optimizers.npz` and `losses.npz` into a folder."""
    folder, data = Path(sys.argv[1]), problem()
    after = {name: by_torch(case, data) for name, case in TORCH.items()}
    after["lion"] = by_optax(data)
    rates = {name: np.float64(case.rate) for name, case in TORCH.items()} | {"lion": 0.003}
    arrays = {f"{name}.rate": rate for name, rate in rates.items()}
    arrays |= {f"{name}.after": array.astype("f") for name, array in after.items()}
    np.savez_compressed(folder / "optimizers.npz", **data, **arrays)
    np.savez_compressed(folder / "losses.npz", **losses())


main()

"""Record the learning rates of PyTorch's schedulers, for the tests of schedules.

    python tools/record_schedules.py tests/training/data

Run by an interpreter that has PyTorch; the tests need only what it writes, `schedules.npz`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.optim import lr_scheduler as schedulers

STEPS = 60
RATE = 0.5
Make = Callable[[torch.optim.Optimizer], schedulers.LRScheduler]


def warm(optimizer: torch.optim.Optimizer) -> schedulers.LRScheduler:
    """Return a cosine behind a linear warmup."""
    first = schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=10)
    then = schedulers.CosineAnnealingLR(optimizer, T_max=50)
    return schedulers.SequentialLR(optimizer, [first, then], milestones=[10])


CASES: dict[str, Make] = {
    "constant": lambda o: schedulers.ConstantLR(o, factor=1.0),
    "linear": lambda o: schedulers.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=40),
    "step": lambda o: schedulers.StepLR(o, step_size=7, gamma=0.6),
    "step-list": lambda o: schedulers.MultiStepLR(o, milestones=[5, 30, 31], gamma=0.3),
    "exponential": lambda o: schedulers.ExponentialLR(o, gamma=0.95),
    "polynomial": lambda o: schedulers.PolynomialLR(o, total_iters=50, power=1.7),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, T_max=STEPS - 1, eta_min=0.01),
    "cosine-restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=13, eta_min=0.1),
    "cosine-restarts-growing": lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=6, T_mult=2),
    "one-cycle": lambda o: schedulers.OneCycleLR(
        o, max_lr=RATE, total_steps=STEPS, cycle_momentum=False
    ),
    "one-cycle-linear": lambda o: schedulers.OneCycleLR(
        o,
        max_lr=RATE,
        total_steps=STEPS,
        pct_start=0.45,
        div_factor=10,
        final_div_factor=50,
        anneal_strategy="linear",
        cycle_momentum=False,
    ),
    "warmup": warm,
}
PLATEAU: dict[str, dict[str, object]] = {
    "plateau": {"patience": 3},
    "plateau-max": {
        "factor": 0.5,
        "patience": 2,
        "mode": "max",
        "threshold": 0.05,
        "cooldown": 2,
        "min_lr": 0.02,
    },
}


def optimizer() -> torch.optim.Optimizer:
    """Return one that trains nothing."""
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)


def rates(make: Make) -> np.ndarray:
    """Return the rate in each step, in parts of the base."""
    updates = optimizer()
    schedule, result = make(updates), []
    for _ in range(STEPS):
        result.append(updates.param_groups[0]["lr"] / RATE)
        updates.step()
        schedule.step()
    return np.array(result)


def on_plateau(settings: dict[str, object], metrics: np.ndarray) -> np.ndarray:
    """Return the rate after each measurement, in parts of the base."""
    updates = optimizer()
    schedule, result = schedulers.ReduceLROnPlateau(updates, eps=0, **settings), []
    for metric in metrics:
        schedule.step(metric)
        result.append(updates.param_groups[0]["lr"] / RATE)
    return np.array(result)


def main() -> None:
    """Write `schedules.npz` into a folder."""
    warnings.simplefilter("ignore")
    arrays = {name: rates(make) for name, make in CASES.items()}
    random = np.random.default_rng(0)
    metrics = np.maximum(np.linspace(3, -1, STEPS), 0.7) + random.normal(size=STEPS) / 4
    arrays["metrics"] = metrics
    arrays |= {name: on_plateau(settings, metrics) for name, settings in PLATEAU.items()}
    np.savez_compressed(Path(sys.argv[1]) / "schedules.npz", **arrays)


main()

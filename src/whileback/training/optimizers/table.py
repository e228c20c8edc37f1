"""The optimizers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whileback.training.named import from_table
from whileback.training.optimizers.base import Optimizer
from whileback.training.optimizers.descent import lion, sgd
from whileback.training.optimizers.factored import adafactor
from whileback.training.optimizers.moments import adam, adamax, adamw, nadam, radam
from whileback.training.optimizers.squares import adadelta, adagrad, rmsprop

__all__ = ["OPTIMIZERS", "optimizer_named"]

OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adamw,
    "adamax": adamax,
    "nadam": nadam,
    "radam": radam,
    "adagrad": adagrad,
    "adadelta": adadelta,
    "rmsprop": rmsprop,
    "lion": lion,
    "adafactor": adafactor,
}


def optimizer_named(optimizer: str | Optimizer) -> Optimizer:
    """Return an optimizer, by its name with the settings that PyTorch gives it by default.

    Raises: ArgumentError for an unknown name.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    return from_table("optimizer", optimizer, OPTIMIZERS)

"""Optimizers: what a step makes of a parameter, its gradient and what is kept between steps.

Each is a function of (parameter, gradient, state, rate) to (change, state), in plain operators
of ONNX, with the arithmetic of PyTorch; the table `OPTIMIZERS` has them by name. Weight decay,
which all of them do in one of two ways, is no part of them: see `Optimizer.apply`.
"""

from whileback.training.optimizers.base import Clock, Optimizer, State
from whileback.training.optimizers.descent import lion, sgd
from whileback.training.optimizers.factored import adafactor
from whileback.training.optimizers.moments import adam, adamax, adamw, nadam, radam
from whileback.training.optimizers.squares import adadelta, adagrad, rmsprop
from whileback.training.optimizers.table import OPTIMIZERS, optimizer_named

__all__ = [
    "OPTIMIZERS",
    "Clock",
    "Optimizer",
    "State",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lion",
    "nadam",
    "optimizer_named",
    "radam",
    "rmsprop",
    "sgd",
]

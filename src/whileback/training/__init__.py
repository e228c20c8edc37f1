"""Training steps as plain ONNX models: parameters, state and a batch in, parameters and loss out.

`step` makes them, of losses and optimizers that are functions on a builder of graphs. The learning
rate is an input; `schedules` has functions for it.
"""

from whileback.training.custom import custom
from whileback.training.flat import joined, parted
from whileback.training.groups import Group
from whileback.training.interface import Interface, Part, interface
from whileback.training.lora import lora, merge
from whileback.training.losses import (
    LOSSES,
    Loss,
    binary_cross_entropy,
    cosine,
    cross_entropy,
    huber,
    kl,
    l1,
    mse,
    nll,
    output,
)
from whileback.training.optimizers import (
    OPTIMIZERS,
    Optimizer,
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamw,
    lion,
    nadam,
    radam,
    rmsprop,
    sgd,
)
from whileback.training.schedules import SCHEDULES, Schedule, schedule_named

# Last, since the functions have the names of submodules, which an import would bind again.
from whileback.training.gradients import gradients  # isort: skip
from whileback.training.step import step  # isort: skip

__all__ = [
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Group",
    "Interface",
    "Loss",
    "Optimizer",
    "Part",
    "Schedule",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "binary_cross_entropy",
    "cosine",
    "cross_entropy",
    "custom",
    "gradients",
    "huber",
    "interface",
    "joined",
    "kl",
    "l1",
    "lion",
    "lora",
    "merge",
    "mse",
    "nadam",
    "nll",
    "output",
    "parted",
    "radam",
    "rmsprop",
    "schedule_named",
    "sgd",
    "step",
]

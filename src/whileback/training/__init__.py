"""Training steps as plain ONNX models: parameters, state and a batch in, parameters and loss out.

`step` makes them, of losses and optimizers that are functions on a builder of graphs. The learning
rate is an input; `schedules` has functions for it. What runs steps, from `whileback.trainer`, is
here as well.
"""

from typing import TYPE_CHECKING, Any

from whileback.training.custom import custom
from whileback.training.evaluating import evaluation
from whileback.training.exporting import export
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
from whileback.training.precision import Precision
from whileback.training.schedules import SCHEDULES, Schedule, schedule_named

# Last, since the functions have the names of submodules, which an import would bind again.
from whileback.training.gradients import gradients  # isort: skip
from whileback.training.step import step  # isort: skip

if TYPE_CHECKING:
    from whileback.trainer import (
        Arrays,
        Checkpoint,
        Dataset,
        Evaluation,
        Indexed,
        Moment,
        Outcome,
        Run,
        Trainer,
        accuracy,
        read_checkpoint,
        read_data,
        read_parameters,
        write_artifacts,
        write_checkpoint,
    )

__all__ = [
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Arrays",
    "Checkpoint",
    "Dataset",
    "Evaluation",
    "Group",
    "Indexed",
    "Interface",
    "Loss",
    "Moment",
    "Optimizer",
    "Outcome",
    "Part",
    "Precision",
    "Run",
    "Schedule",
    "Trainer",
    "accuracy",
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
    "evaluation",
    "export",
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
    "read_checkpoint",
    "read_data",
    "read_parameters",
    "rmsprop",
    "schedule_named",
    "sgd",
    "step",
    "write_artifacts",
    "write_checkpoint",
]


def __getattr__(name: str) -> Any:
    """Return what runs steps: it stands above the graphs, and is imported when asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from whileback import trainer

    return getattr(trainer, name)

"""Runs steps of training: `Trainer` makes them, `Run` goes through data, checkpoints keep all."""

from whileback.trainer.artifacts import write_artifacts
from whileback.trainer.batches import Arrays, Indexed
from whileback.trainer.checkpoints import (
    Checkpoint,
    read_checkpoint,
    read_parameters,
    write_checkpoint,
)
from whileback.trainer.data import Dataset, read_data
from whileback.trainer.metrics import accuracy
from whileback.trainer.run import Moment, Outcome, Run
from whileback.trainer.trainer import Evaluation, Trainer

__all__ = [
    "Arrays",
    "Checkpoint",
    "Dataset",
    "Evaluation",
    "Indexed",
    "Moment",
    "Outcome",
    "Run",
    "Trainer",
    "accuracy",
    "read_checkpoint",
    "read_data",
    "read_parameters",
    "write_artifacts",
    "write_checkpoint",
]

"""Runs steps of training: `Trainer` makes them, `Run` goes through data, checkpoints keep all."""

from whileback.trainer.batches import Arrays, Indexed
from whileback.trainer.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from whileback.trainer.run import Moment, Outcome, Run
from whileback.trainer.trainer import Evaluation, Trainer

__all__ = [
    "Arrays",
    "Checkpoint",
    "Evaluation",
    "Indexed",
    "Moment",
    "Outcome",
    "Run",
    "Trainer",
    "read_checkpoint",
    "write_checkpoint",
]

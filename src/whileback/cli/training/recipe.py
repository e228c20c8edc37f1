"""What a step and a run are made of, in words of the command line; a run keeps it as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import onnx_ir as ir

from whileback import training
from whileback.cli.memory import read_memory
from whileback.cli.training.words import (
    LossWord,
    read_dropout,
    read_group,
    read_loss,
    read_optimizer,
)
from whileback.graph.names import Names
from whileback.trainer.metrics import Metric, accuracy

__all__ = ["Made", "Recipe", "StepRecipe"]

_LABEL = "label"


class Made(NamedTuple):
    """A step, what evaluates it, and what its labels are called in the data."""

    step: ir.Model
    evaluation: ir.Model
    labels: dict[str, str]
    metrics: dict[str, Metric]


@dataclass(frozen=True)
class StepRecipe:
    """What makes a step of a model; the fields are options of the commands."""

    loss: list[str]
    label: str | None
    optimizer: str
    trainable: list[str]
    no_decay: list[str]
    group: list[str]
    clip_norm: float | None
    clip_value: float | None
    dropout: list[str]
    precision: str | None
    quantized: str | None
    statistics: str
    accumulate: int
    average: float | None
    memory: list[str]
    lora: list[str]
    lora_rank: int
    lora_alpha: float
    seed: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """Return what arguments say."""
        return cls(**{each.name: getattr(arguments, each.name) for each in fields(cls)})

    def adapted(self, model: ir.Model) -> ir.Model:
        """Return what is trained: the model, or one with adapters."""
        if not self.lora:
            return model
        return training.lora(model, self.lora, self.lora_rank, self.lora_alpha, self.seed)

    def restored(self, model: ir.Model, parameters: dict[str, Any]) -> ir.Model:
        """Return the model with what was trained."""
        tuned = training.export(self.adapted(model), parameters)
        return training.merge(tuned) if self.lora else tuned

    def make(self, model: ir.Model, flat: bool = False) -> Made:
        """Return the step of a model, and what belongs to it."""
        words = [read_loss(word) for word in self.loss]
        columns = [word.label or self.label or _LABEL for word in words]
        labels = _inputs(columns, model)
        pairs = zip(self.loss, words, columns, strict=True)
        losses = [word.made(said, labels[column]) for said, word, column in pairs]
        base = self.adapted(model)
        step = self._step(base, losses, False)
        evaluation = training.evaluation(base, losses, step)
        step = self._step(base, losses, True) if flat else step
        own = {value.name for value in model.graph.inputs}
        new = {value.name for value in step.graph.inputs} - own
        named = {name: column for column, name in labels.items() if name in new}
        return Made(step, evaluation, named, _metrics(model, words, losses))

    def _step(self, model: ir.Model, losses: list[training.Loss], flat: bool) -> ir.Model:
        return training.step(
            model,
            losses,
            read_optimizer(self.optimizer),
            self.trainable or None,
            groups=[read_group(word) for word in self.group],
            no_decay=self.no_decay,
            clip_norm=self.clip_norm,
            clip_value=self.clip_value,
            dropout=read_dropout(self.dropout),
            precision=self.precision,
            quantized=self.quantized,  # type: ignore[arg-type]  # one of the parser's choices
            statistics=self.statistics,  # type: ignore[arg-type]  # likewise
            accumulate=self.accumulate,
            average=self.average,
            flat=flat,
            memory=read_memory(self.memory),
        )


@dataclass(frozen=True)
class Recipe(StepRecipe):
    """What makes a run."""

    learning_rate: float
    schedule: str | None
    warmup: int
    batch: int
    epochs: int


def _inputs(columns: Iterable[str], model: ir.Model) -> dict[str, str]:
    """Return by column the input that reads it: one of the model's, or a new one of a free name."""
    inputs = {value.name for value in model.graph.inputs}
    names = Names.of(model.graph)
    found: dict[str, str] = {}
    for column in dict.fromkeys(columns):
        free = column if column in inputs else names.fresh(column)
        found[column] = free if free == column else names.fresh(f"{column}_{_LABEL}")
    return found


def _metrics(
    model: ir.Model, words: list[LossWord], losses: list[training.Loss]
) -> dict[str, Metric]:
    """Return the accuracy of each loss of classes that reads an output, and ignores no label."""
    floats = [v for v in model.graph.outputs if v.dtype and v.dtype.is_floating_point()]
    found = {}
    for word, loss in zip(words, losses, strict=True):
        output = loss.output or str(floats[0].name)
        known = output in {value.name for value in model.graph.outputs}
        if loss.of_classes and loss.label and known and "ignore_index" not in word.settings:
            name = "accuracy" if len(losses) == 1 else f"accuracy of {output}"
            found[name] = accuracy(output, loss.label, loss.axis)
    return found

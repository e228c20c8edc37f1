"""`Trainer`: makes steps of training, and keeps parameters and state in the engine between them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.engines import compile
from whileback.errors import ArgumentError, FormatError, TrainingError
from whileback.gradient.transform import names
from whileback.graph.copying import clone
from whileback.graph.shapes import static_shape
from whileback.signatures import require_types
from whileback.trainer.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from whileback.training.interface import interface

__all__ = ["Evaluation", "Trainer"]

# How many differences of a checkpoint are listed.
_SHOWN = 4
_ADVICE = (
    "Take a smaller learning rate or limit gradients with clip_norm=, and see that the data holds "
    "no NaN; go on from a checkpoint."
)


@dataclass(frozen=True)
class Evaluation:
    """What a model makes of a batch: its losses and its outputs, by name."""

    losses: Mapping[str, float]
    outputs: Mapping[str, np.ndarray]


class Trainer:
    """Makes the steps of `whileback.training.step` one after the other.

    Parameters, running statistics and the optimizer's state stay in the engine's memory: ONNX
    Runtime reads them from one set of buffers and writes them to another one, XLA hands its
    arrays on. Batches may change their sizes from step to step.

    Args:
        step: what `whileback.training.step` has made.
        engine: which runs it, as for `whileback.compile`.
        evaluation: what `whileback.training.evaluation` has made, for `evaluate`.
        seed: of what a step draws at random, such as what `Dropout` drops; by default 0.
        options: of the engine, as for `whileback.compile`.

    Attributes:
        steps: how many calls of `step` there were.
        loss: what the loss that is made smaller is called.

    Raises:
        ArgumentError: the model is no step, or engine or options are unknown.
        EngineError: the runtime is missing, or refuses the model.

    >>> import onnx_ir as ir
    >>> from whileback import training
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> trainer = training.Trainer(training.step(model, "mse", "sgd"))
    >>> batch = {"x": [[1.0], [2.0]], "label": [[3.0], [6.0]]}
    >>> for _ in range(20):
    ...     losses = trainer.step(batch, learning_rate=0.1)
    >>> losses["loss"] < 1e-6, trainer.steps, trainer.state()["w"].round(3).tolist()
    (True, 20, [[3.0]])
    """

    def __init__(
        self,
        step: ir.Model,
        engine: str = "onnxruntime",
        *,
        evaluation: ir.Model | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        require_types(Trainer.__init__, locals())
        known = self._known = interface(step)
        if not known.learning_rate:
            raise ArgumentError(
                f"Model '{step.graph.name}' has gradients and no optimizer. Make a step with "
                "whileback.training.step()."
            )
        self.name = str(step.graph.name)
        self.steps, self.loss = 0, known.loss
        self._losses = list({known.loss: "", **known.losses})
        following = names(step)
        bare, first = _without_defaults(step, following)
        self._step = compile(bare, engine, **options).carrying(following, first)
        self._evaluation = None
        if evaluation is not None:
            bare, _ = _without_defaults(evaluation, following)
            self._evaluation = compile(bare, engine, **options)
        self.seed = seed
        self._seed = {} if seed is None or known.seed is None else {known.seed: np.array(seed)}
        inputs = {str(value.name): value for value in step.graph.inputs}
        self._kept = {name: inputs[name] for name in following}

    @property
    def updates(self) -> int:
        """How often the parameters have changed: in every k-th call, of a step of accumulate=k."""
        return self.steps // self._known.accumulate

    def step(self, batch: Mapping[str, Any], learning_rate: float) -> dict[str, float]:
        """Make one step on a batch, arrays by input; return the losses before it.

        Raises:
            ArgumentError: an array is missing, unknown, or of a wrong type or shape, or the
                learning rate is no number from 0.
            TrainingError: a loss is NaN or infinite; what the step made of that is kept.
            EngineError: the runtime failed; parameters and state are what they were.
        """
        out = self._step(
            {
                **self._seed,
                **batch,
                self._known.learning_rate: _rate(learning_rate),
            }
        )
        self.steps += 1
        losses = {name: float(out[name]) for name in self._losses}
        _require_finite(losses, self.steps)
        return losses

    def evaluate(self, batch: Mapping[str, Any], average: bool = False) -> Evaluation:
        """Return losses and outputs for a batch, with the parameters as they are now.

        Args:
            batch: arrays by input.
            average: whether to take the moving averages of parameters in place of these.

        Raises: ArgumentError if no `evaluation` was given, averages are asked for, and the step
            keeps none, and as `step`.
        """
        if self._evaluation is None:
            raise ArgumentError(
                "This Trainer has no model to evaluate. Make it with "
                "Trainer(step, evaluation=whileback.training.evaluation(model, loss, step))."
            )
        out = self._evaluation({**batch, **self._checkpoint().inputs(average)})
        arrays = {name: np.asarray(value) for name, value in out.items()}
        return Evaluation(
            {name: float(arrays.pop(name)) for name in self._losses},
            arrays,
        )

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of all that is kept between steps, by input of the step."""
        return {name: np.array(value) for name, value in self._step.values.items()}

    def load(self, state: Mapping[str, Any], steps: int = 0) -> None:
        """Go on from a state, as `state` has returned it, after so many steps.

        Raises: ArgumentError for one that lacks something, or has something else; nothing changes.
        """
        missing = [name for name in self._kept if name not in state]
        if missing:
            listed = ", ".join(map(repr, missing))
            raise ArgumentError(
                f"The state lacks {listed}, which step {self.name!r} keeps. Load a state of the "
                "same step."
            )
        self._step.carry(state)
        self.steps = steps

    def parameters(self, average: bool = False) -> dict[str, np.ndarray]:
        """Return copies of parameters and running statistics, for `whileback.training.export`.

        Args:
            average: whether to take the moving averages of parameters in place of these.

        Raises: ArgumentError if averages are asked for, and the step keeps none.
        """
        values = self._checkpoint().parameters(average)
        return {name: np.array(value) for name, value in values.items()}

    @property
    def signature(self) -> str:
        """A digest of the names, types and shapes of what is kept, and of the losses."""
        return hashlib.sha256(json.dumps(self._described()).encode()).hexdigest()

    def save(
        self,
        path: str | os.PathLike[str],
        position: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write a checkpoint, with anything that JSON can hold as the `position` of the data.

        Raises:
            FormatError: the file cannot be written, or exists and is not to be replaced.
            TrainingError: a parameter or another part of the state is NaN or infinite.
        """
        checkpoint = self._checkpoint(position)
        _require_finite_state(checkpoint)
        write_checkpoint(path, checkpoint, overwrite)

    def restore(self, path: str | os.PathLike[str]) -> Mapping[str, Any]:
        """Go on from a checkpoint; return its position.

        Raises: FormatError if it is damaged, or of another step; nothing changes.
        """
        checkpoint = read_checkpoint(path)
        wrong = self._misfits(checkpoint)
        if wrong:
            more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise FormatError(
                f"'{path}' is no checkpoint of step {self.name!r}: "
                f"{'; '.join(wrong[:_SHOWN])}{more}. Take one "
                "that the same step has written, with the same model, losses and optimizer."
            )
        self.load(checkpoint.state, checkpoint.steps)
        return checkpoint.position

    def _checkpoint(self, position: Mapping[str, Any] | None = None) -> Checkpoint:
        """Return what is kept, as arrays of the engine that hold until the next step."""
        kept = self._step.values
        return Checkpoint(kept, self.steps, self.signature, self._known, position or {})

    def _described(self) -> list[Any]:
        return [{name: _described(value) for name, value in self._kept.items()}, self._losses]

    def _misfits(self, checkpoint: Checkpoint) -> list[str]:
        """Say in what a checkpoint differs from what the step keeps."""
        found = {name: f"{a.dtype.name}{list(a.shape)}" for name, a in checkpoint.state.items()}
        wrong = [f"it lacks {name!r}" for name in self._kept if name not in found]
        wrong += [f"it has {name!r}" for name in found if name not in self._kept]
        for name, value in self._kept.items():
            wanted = _described(value)
            if found.get(name, wanted) != wanted:
                wrong.append(f"{name!r} is {found[name]}, not {wanted}")
        if not wrong and checkpoint.signature != self.signature:
            wrong.append("it has other losses")
        return wrong


def _rate(given: float) -> np.ndarray:
    """Return a learning rate as an array, and refuse what would spoil the parameters."""
    try:
        rate = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        rate = np.asarray(np.nan)
    if rate.ndim or not 0 <= rate < np.inf:
        raise ArgumentError(f"learning_rate={given!r} is no number from 0. Give one, such as 1e-3.")
    return rate


def _without_defaults(
    model: ir.Model, inputs: Iterable[str]
) -> tuple[ir.Model, dict[str, np.ndarray]]:
    """Return a model whose inputs have no defaults, and these: an engine would keep them for good.

    Nor need it fit into the 2 GB of a file together with them.
    """
    bare = clone(model)
    given = bare.graph.initializers
    tensors = {name: given.pop(name).const_value for name in inputs if name in given}
    for value in bare.graph.inputs:
        if value.name in tensors:
            value.const_value = None
    return bare, {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}


def _described(value: ir.Value) -> str:
    """Return type and shape of what is kept, as `float32[2, 3]`."""
    assert value.dtype is not None
    return f"{value.dtype.numpy().name}{list(static_shape(value) or ())}"


def _require_finite_state(checkpoint: Checkpoint) -> None:
    """Refuse to keep what nobody can go on from."""
    for name, array in checkpoint.state.items():
        if not np.all(np.isfinite(array)):
            raise TrainingError(
                f"{name!r} has NaN or infinite elements after step {checkpoint.steps}. {_ADVICE}"
            )


def _require_finite(losses: Mapping[str, float], steps: int) -> None:
    """Refuse to go on with a loss that is no number."""
    wrong = [f"{name} is {value}" for name, value in losses.items() if not math.isfinite(value)]
    if wrong:
        raise TrainingError(f"{', '.join(wrong)} in step {steps}. {_ADVICE}")

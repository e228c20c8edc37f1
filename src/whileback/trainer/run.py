"""`Run`: epochs of steps, with a folder from which a run that was killed goes on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from whileback.errors import ArgumentError, FormatError, TrainingError
from whileback.formats.files import errors_name
from whileback.signatures import require_types
from whileback.trainer.batches import Batch, Data, Indexed, batches, number_of_batches
from whileback.trainer.interrupts import deferred_interrupts
from whileback.trainer.logs import Log, events, require_events
from whileback.trainer.metrics import Metric
from whileback.trainer.trainer import Trainer

__all__ = ["BEST", "LAST", "LOG", "Moment", "Outcome", "Run"]

LAST, BEST, LOG = "last.safetensors", "best.safetensors", "log.jsonl"


@dataclass(frozen=True)
class Moment:
    """What a step has made: its number, from 1 on, its losses, and where it stands in the data.

    `epoch` and `batch` count from 0; `batches` are those of an epoch, None if nobody knows yet.
    """

    step: int
    epoch: int
    batch: int
    batches: int | None
    losses: Mapping[str, float]


@dataclass(frozen=True)
class Outcome:
    """What a run has come to: steps and epochs made.

    `losses` are means of the last epoch, `evaluation` is what it ended with, and `best` the
    smallest loss that an evaluation had.
    """

    steps: int
    epochs: int
    losses: Mapping[str, float]
    evaluation: Mapping[str, float]
    best: float | None


@dataclass
class _Place:
    """Where a run stands; a checkpoint has it as its position.

    `log` is the size of the log, `sums` are the losses of the epoch so far, `best` the smallest
    loss of an evaluation; `losses` and `evaluation` are those of the last whole epoch.
    """

    epoch: int = 0
    batch: int = 0
    log: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    evaluation: dict[str, float] = field(default_factory=dict)
    best: float | None = None


@dataclass
class Run:
    """Trains for some epochs, and keeps in a folder all that is needed to go on.

    A run that is killed at any moment and goes on later gives the same parameters, to the last bit,
    and the same log. In the folder are `last.safetensors`, `best.safetensors` (of the smallest loss
    that an evaluation had), `log.jsonl`, and events for TensorBoard.

    Attributes:
        trainer: makes the steps; with a model to evaluate if `evaluation` is given.
        data: what to train on: `Indexed` examples, such as `Arrays`, which are shuffled anew in
            every epoch, or anything that yields the same batches, dicts of arrays, whenever it is
            iterated.
        folder: where the files are; it is made if its parent exists.
        epochs: how often to go through the data, earlier tries included.
        learning_rate: of every step, times what `schedule` gives.
        batch_size: examples in a batch of `Indexed` data.
        schedule: a function of the number of updates of the parameters so far to a factor; with
            accumulate=k, k steps make one.
        seed: of the order of examples; None leaves them in their own.
        evaluation: data whose losses are computed after every epoch, means over its examples.
        metrics: by name, functions of a batch and the model's outputs for it to a number, for the
            same.
        log_every: how many steps there are to a line in the log.
        save_every: how many steps there are to a checkpoint; one is written after every epoch.
        tensorboard: whether to write events; None does so if the package tensorboardX is there.
        on_step: called after every step.
        on_epoch: called after every epoch, once its checkpoint is written.

    >>> import tempfile, numpy as np, onnx_ir as ir
    >>> from whileback import training
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> trainer = training.Trainer(training.step(model, "mse", "sgd"))
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = training.Run(trainer, training.Arrays({"x": x, "label": 3 * x}), folder.name,
    ...     epochs=9, learning_rate=0.5, batch_size=8, tensorboard=False)
    >>> outcome = run.fit()
    >>> outcome.steps, outcome.losses["loss"] < 1e-6
    (72, True)
    """

    trainer: Trainer
    data: Data
    folder: str | os.PathLike[str]
    _: KW_ONLY
    epochs: int
    learning_rate: float
    batch_size: int = 32
    schedule: Callable[[int], float] | None = None
    seed: int | None = 0
    evaluation: Data | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    log_every: int = 10
    save_every: int | None = None
    tensorboard: bool | None = None
    on_step: Callable[[Moment], None] | None = None
    on_epoch: Callable[[Outcome], None] | None = None

    def __post_init__(self) -> None:
        require_types(Run, vars(self), but=("schedule",))
        for name in ("epochs", "batch_size", "log_every", "save_every"):
            number = getattr(self, name)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ArgumentError(f"{name}={number!r} is no whole number above 0. Give one.")
        if self.seed is not None and not 0 <= self.seed < 2**64:
            raise ArgumentError(
                f"seed={self.seed!r} is not from 0 to below 2**64. Give one that is."
            )
        if self.schedule is not None and not callable(self.schedule):
            raise ArgumentError(
                f"schedule={self.schedule!r} is no function of the number of updates. Give one, "
                "such as training.schedules.cosine(1000)."
            )
        require_events(self.tensorboard)
        self._folder = Path(self.folder)

    def fit(self, resume: bool = False) -> Outcome:
        """Make the epochs that are left.

        Ctrl-C lets the step end, writes a checkpoint, and is raised then as KeyboardInterrupt.

        Args:
            resume: whether to go on from the folder's last checkpoint, if it has one.

        Raises:
            ArgumentError: a batch does not fit the model, or the run was begun with another order
                of the data.
            FormatError: the folder holds a run, and `resume` is not set; or a file is damaged.
            TrainingError: a loss, also of the evaluation, or a parameter to be saved, is NaN or
                infinite.
        """
        self._try_evaluation()
        with ExitStack() as stack:
            self._open(resume, stack)
            try:
                while self._place.epoch < self.epochs:
                    self._epoch()
            except TrainingError as error:
                last = self._folder / LAST
                raise TrainingError(f"{error} The last one is '{last}'.") from error
        return self._outcome()

    def _outcome(self) -> Outcome:
        steps, place = self.trainer.steps, self._place
        return Outcome(steps, place.epoch, place.losses, place.evaluation, place.best)

    def _try_evaluation(self) -> None:
        """Refuse data that cannot be evaluated before there is an epoch to be lost."""
        if self.evaluation is None or isinstance(self.evaluation, Iterator):
            return
        for batch in islice(batches(self.evaluation, self.batch_size, seed=None), 1):
            self.trainer.evaluate(batch)

    def _open(self, resume: bool, stack: ExitStack) -> None:
        """Go on from the last checkpoint, or begin; open the files until the stack is closed."""
        last, log = self._folder / LAST, self._folder / LOG
        with errors_name(self._folder):
            self._folder.mkdir(exist_ok=True)
        if not resume and (last.exists() or log.exists()):
            raise FormatError(
                f"'{self._folder}' holds a run; go on with --resume (in Python resume=True), or "
                "name another folder"
            )
        for left in self._folder.glob(".*.safetensors.*.tmp"):
            # A run that was killed while it wrote a checkpoint has left it behind.
            left.unlink()
        self._place, begun = _Place(), last.exists()
        if begun:
            self._restore(last)
        self._log = Log(log, self._place.log)
        stack.callback(self._log.close)
        steps = self.trainer.steps if begun else None
        self._events = events(self._folder, self.tensorboard, steps)
        stack.callback(self._events.close)
        if not begun:
            self._save(LAST)
        self._interrupt = stack.enter_context(deferred_interrupts())

    def _restore(self, last: Path) -> None:
        position = dict(self.trainer.restore(last))
        if not _is_of_a_run(position):
            raise FormatError(
                f"'{last}' is a checkpoint, but of no run. Begin a run in another folder, or go on "
                "by hand with Trainer.restore()."
            )
        begun, now = position.pop("order"), self._order()
        for name in now:
            if begun.get(name) != now[name]:
                raise ArgumentError(
                    f"'{self._folder}' was begun with {name}={begun.get(name)!r}, but now it is "
                    f"{now[name]!r}: what follows would not be what it was to be. Go on with the "
                    "same, or begin another run."
                )
        self._place = _Place(**position)

    def _order(self) -> dict[str, Any]:
        """Return what determines the order of the data, and what is drawn."""
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "examples": len(self.data) if isinstance(self.data, Indexed) else None,
            "trainer.seed": self.trainer.seed,
        }

    def _epoch(self) -> None:
        place = self._place
        order = batches(
            self.data, self.batch_size, seed=self.seed, epoch=place.epoch, skip=place.batch
        )
        for batch in order:
            self._step(batch)
            if self.save_every and self.trainer.steps % self.save_every == 0:
                self._save(LAST)
            self._stop_if_asked()
        if not place.batch:
            raise ArgumentError(
                f"Epoch {place.epoch} has no batches. Give data that yields some whenever it is "
                "iterated: a list, or an object with __iter__, but no generator."
            )
        self._end_epoch()

    def _step(self, batch: Batch) -> None:
        trainer, place = self.trainer, self._place
        factor = 1.0 if self.schedule is None else self.schedule(trainer.updates)
        rate = self.learning_rate * factor
        losses = trainer.step(batch, rate)
        for name, loss in losses.items():
            place.sums[name] = place.sums.get(name, 0.0) + loss
        if trainer.steps % self.log_every == 0:
            self._tell("train", {"learning_rate": rate, **losses})
        count = number_of_batches(self.data, self.batch_size)
        if self.on_step is not None:
            self.on_step(Moment(trainer.steps, place.epoch, place.batch, count, losses))
        place.batch += 1

    def _end_epoch(self) -> None:
        """Evaluate, write it down, and keep the best."""
        place = self._place
        place.losses = {name: total / place.batch for name, total in place.sums.items()}
        self._tell("mean", place.losses)
        is_best = False
        if self.evaluation is not None:
            place.evaluation = self._evaluate(self.evaluation)
            _require_finite_evaluation(place.evaluation, self.trainer)
            self._tell("evaluation", place.evaluation)
            loss = place.evaluation[self.trainer.loss]
            is_best = loss < (math.inf if place.best is None else place.best)
            place.best = loss if is_best else place.best
        self._place = replace(place, epoch=place.epoch + 1, batch=0, sums={})
        if is_best:
            self._save(BEST)
        self._save(LAST)
        if self.on_epoch is not None:
            self.on_epoch(self._outcome())
        self._stop_if_asked()

    def _evaluate(self, data: Data) -> dict[str, float]:
        """Return the means of losses and metrics over the examples of the data."""
        sums: dict[str, float] = {}
        examples = 0
        for batch in batches(data, self.batch_size, seed=None):
            found = self.trainer.evaluate(batch)
            numbers = dict(found.losses)
            numbers |= {n: float(each(batch, found.outputs)) for n, each in self.metrics.items()}
            count = len(next(iter(batch.values())))
            if isinstance(data, Indexed):
                count = min(self.batch_size, len(data) - examples)
            examples += count
            for name, number in numbers.items():
                sums[name] = sums.get(name, 0.0) + number * count
            self._stop_if_asked()
        if not examples:
            raise ArgumentError("The data for the evaluation has no batches. Give some.")
        return {name: total / examples for name, total in sums.items()}

    def _tell(self, group: str, numbers: Mapping[str, float]) -> None:
        step = self.trainer.steps
        self._log.write({"step": step, "epoch": self._place.epoch, group: dict(numbers)})
        self._events.write(group, numbers, step)

    def _save(self, name: str) -> None:
        self._place.log = self._log.position()
        position = {**asdict(self._place), "order": self._order()}
        self.trainer.save(self._folder / name, position, overwrite=True)

    def _stop_if_asked(self) -> None:
        if self._interrupt.came:
            self._save(LAST)
            raise KeyboardInterrupt


def _require_finite_evaluation(numbers: Mapping[str, float], trainer: Trainer) -> None:
    """Refuse to take the best of losses that are no numbers."""
    loss = numbers[trainer.loss]
    if not math.isfinite(loss):
        raise TrainingError(
            f"{trainer.loss} of the evaluation is {loss} after step {trainer.steps}. See that its "
            "data holds no NaN, or take a smaller learning rate; go on from a checkpoint."
        )


def _is_of_a_run(position: Mapping[str, Any]) -> bool:
    """Tell whether a position is what a run has written."""
    kinds = {name: type(value) for name, value in position.items()}
    own = {name: type(value) for name, value in asdict(_Place()).items()} | {"order": dict}
    return kinds in (own, own | {"best": float})

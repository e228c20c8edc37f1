"""One function per command; each returns the exit status."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

import whileback
from whileback import training
from whileback.cli.interrupt import INTERRUPTED
from whileback.cli.progress import Progress
from whileback.cli.training.bar import Bar, numbers
from whileback.cli.training.folder import RunFolder
from whileback.cli.training.recipe import Made, Recipe, StepRecipe
from whileback.cli.training.words import read_axes, read_columns, read_rate, read_schedule
from whileback.errors import ArgumentError
from whileback.formats.atomic import require_free
from whileback.formats.caffe2 import is_caffe2
from whileback.graph.shapes import static_shape
from whileback.trainer.batches import number_of_batches

__all__ = ["artifacts", "export", "train"]

_BATCH = 32


def train(arguments: argparse.Namespace) -> int:
    """`whileback train`: go through data, and keep what comes of it in a folder."""
    folder = RunFolder(Path(arguments.out))
    folder.require_free(arguments.resume, arguments.force)
    goes_on = arguments.resume and folder.goes_on
    with Progress(f"preparing {arguments.model}"):
        model = folder.model() if goes_on else _opened(arguments.model)
        made = StepRecipe.of(arguments).make(model)
        data, tests = _data(arguments, made)
        recipe = Recipe.of(arguments)
        recipe = replace(recipe, batch=_batch(arguments.batch, data))
        if goes_on:
            folder.require_same(Path(arguments.model), recipe)
        run = _run(arguments, recipe, made, data, tests)
    _tell(made, data, recipe)
    if not goes_on:
        files = {"data": arguments.data, "eval": arguments.eval}
        files |= {"input": arguments.input, "axis": arguments.axis}
        with Progress(f"copying {arguments.model}") as progress:
            folder.begin(model, Path(arguments.model), recipe, files, progress.copied)
    return _fit(run, recipe, arguments.resume)


def export(arguments: argparse.Namespace) -> int:
    """`whileback export`: write the original model with the parameters of a run."""
    require_free(Path(arguments.output).absolute(), arguments.force)
    with Progress(f"exporting {arguments.run}") as progress:
        tuned, said = _exported(arguments)
        whileback.save(
            tuned,
            arguments.output,
            external_data="copy",
            overwrite=arguments.force,
            progress=progress.copied,
        )
    print(f"'{arguments.output}' has {said}")
    return 0


def _exported(arguments: argparse.Namespace) -> tuple[ir.Model, str]:
    """Return a model with what was trained, and a word on where that comes from."""
    average = arguments.average
    if arguments.tensors:
        parameters = training.read_parameters(arguments.tensors, average)
        return training.export(
            _opened(arguments.run), parameters
        ), f"the tensors of '{arguments.tensors}'"
    folder = RunFolder(Path(arguments.run))
    file = folder.checkpoint(arguments.best)
    checkpoint = training.read_checkpoint(file)
    tuned = folder.recipe().restored(folder.model(), checkpoint.parameters(average))
    which = "moving averages of the parameters" if average else "parameters"
    return tuned, f"the {which} after step {checkpoint.steps}: {file}"


def artifacts(arguments: argparse.Namespace) -> int:
    """`whileback artifacts`: write a step for programs in other languages."""
    with Progress(f"differentiating {arguments.model}"):
        model = _opened(arguments.model)
        made = StepRecipe.of(arguments).make(model, arguments.flat)
        training.write_artifacts(
            made.step, made.evaluation, arguments.output, overwrite=arguments.force
        )
    _tell_losses(made)
    return 0


def _opened(file: str) -> ir.Model:
    if is_caffe2(file):
        raise ArgumentError(
            f"'{file}' is a net of Caffe2's. Make a model of it with `whileback "
            "convert`, and train that."
        )
    return whileback.load(file)


def _data(
    arguments: argparse.Namespace, made: Made
) -> tuple[training.Dataset, training.Dataset | None]:
    """Return the examples to train on, and those to evaluate."""
    data = _read(arguments.data, arguments, made)
    for note in data.notes:
        print(f"note: {note}", file=sys.stderr)
    return data, _read(arguments.eval, arguments, made) if arguments.eval else None


def _read(words: list[str], arguments: argparse.Namespace, made: Made) -> training.Dataset:
    """Read files, or `NAME=FILE.npy` for each array."""
    columns, constants = read_columns(arguments.input)
    pairs = [word.partition("=") for word in words]
    named = {name: file for name, equals, file in pairs if equals}
    if len(named) not in (0, len(words)):
        raise ArgumentError(
            f"{' '.join(words)}: give files or folders, or NAME=FILE.npy for each array."
        )
    return training.read_data(
        named or words, made.step, made.labels | columns, constants, read_axes(arguments.axis)
    )


def _batch(wanted: int | None, data: training.Dataset) -> int:
    """Return the size of batches: what is wanted, or the only one that the model takes."""
    only = data.batch_size
    if only is not None and wanted not in (None, only):
        raise ArgumentError(
            f"--batch {wanted}: the model takes batches of {only} and no others. Leave --batch "
            "out, or export the model with a first axis of any size."
        )
    size = next(each for each in (wanted, only, _BATCH) if each is not None)
    if size < 1:
        raise ArgumentError(f"--batch {size} is no number of examples; give one from 1.")
    return size


def _run(
    arguments: argparse.Namespace,
    recipe: Recipe,
    made: Made,
    data: training.Dataset,
    tests: training.Dataset | None,
) -> training.Run:
    options = {} if arguments.threads is None else {"threads": arguments.threads}
    evaluation = None if tests is None else made.evaluation
    trainer = training.Trainer(
        made.step, arguments.engine, evaluation=evaluation, seed=recipe.seed, **options
    )
    words = recipe.schedule or "constant"
    return training.Run(
        trainer,
        data,
        arguments.out,
        epochs=recipe.epochs,
        learning_rate=read_rate(recipe.learning_rate),
        batch_size=recipe.batch,
        schedule=read_schedule(words, recipe.warmup, _updates(recipe, made, data)),
        seed=recipe.seed,
        evaluation=tests,
        metrics=made.metrics,
        log_every=arguments.log_every,
        save_every=arguments.save_every,
        tensorboard=arguments.tensorboard,
    )


def _updates(recipe: Recipe, made: Made, data: training.Dataset) -> int:
    """Return how often the parameters change in all epochs.

    Raises: ArgumentError if they never do.
    """
    batches = recipe.epochs * (number_of_batches(data, recipe.batch) or 0)
    calls = training.interface(made.step).accumulate
    if 0 < batches < calls:
        raise ArgumentError(
            f"--accumulate {calls}: there are {_counted(batches, 'batch', 'es')} in all epochs, so "
            "that no step would be made. Accumulate fewer, or give more epochs or smaller batches."
        )
    return batches // calls


def _tell(made: Made, data: training.Dataset, recipe: Recipe) -> None:
    """Print what is trained on what."""
    _tell_losses(made)
    known = training.interface(made.step)
    values = {str(value.name): value for value in made.step.graph.inputs}
    sizes = [math.prod(static_shape(values[name]) or ()) for name in known.parameters]
    batches = number_of_batches(data, recipe.batch)
    each = _counted(batches or 0, "batch", "es")
    print(
        f"{_counted(sum(sizes), 'number')} in {_counted(len(sizes), 'tensor')} are trained, on "
        f"{_counted(len(data), 'example')} in {each}"
    )


def _counted(count: int, what: str, ending: str = "s") -> str:
    return f"{count} {what}{'' if count == 1 else ending}"


def _tell_losses(made: Made) -> None:
    for name, said in training.interface(made.step).losses.items():
        print(f"{name}: {said}")


def _fit(run: training.Run, recipe: Recipe, resume: bool) -> int:
    with Bar(recipe.epochs) as bar:
        run.on_step, run.on_epoch = bar.step, bar.epoch
        try:
            outcome = run.fit(resume)
        except KeyboardInterrupt:
            bar.clear()
            print(
                f"interrupted after step {run.trainer.steps}; go on with the same command and "
                "--resume",
                file=sys.stderr,
            )
            return INTERRUPTED
    best = "" if outcome.best is None else f", best evaluation: {numbers({'loss': outcome.best})}"
    print(
        f"{_counted(outcome.epochs, 'epoch')}, {_counted(outcome.steps, 'step')}{best}; "
        f"whileback export {shlex.quote(str(run.folder))} -o FILE writes the model"
    )
    return 0

"""What can be said of training."""

from __future__ import annotations

import argparse
from typing import Any

from whileback.cli.memory import add_memory
from whileback.cli.parser import Fill, Parser
from whileback.cli.training import commands
from whileback.engines import ENGINES
from whileback.training.losses import LOSSES
from whileback.training.optimizers import OPTIMIZERS
from whileback.training.schedules import SCHEDULES

__all__ = ["FILLS"]

_MODEL = "an ONNX file, or text in .onnx.txt"
_DATA = (
    "a .npz, .parquet, .arrow, .feather or .csv file, a folder of .npy files or of parts, or "
    "NAME=FILE.npy for each array; each example is a row"
)
_LISTS = (
    ("trainable", "PATTERN", "names of the tensors to train (default: all that a loss reads)"),
    ("no-decay", "PATTERN", "names of the parameters without weight decay, such as '*bias'"),
    ("lora", "PATTERN", "train low-rank adapters of the weights of these names, and nothing else"),
    ("dropout", "RATIO", "on, off, a ratio, or PATTERN=RATIO by the names of Dropout nodes"),
)
_NUMBERS: tuple[tuple[str, type, Any, str], ...] = (
    ("clip-norm", float, None, "scale gradients down to this norm"),
    ("clip-value", float, None, "cut elements of gradients to ± this"),
    ("accumulate", int, 1, "make a step with the mean gradient of so many batches (default: 1)"),
    ("average", float, None, "keep moving averages of the parameters, of this decay: 0.999"),
    ("lora-rank", int, 8, "rows of an adapter (default: 8)"),
    ("lora-alpha", float, 16.0, "divided by the rank, the factor of adapters (default: 16)"),
    ("seed", int, 0, "of the order of examples, of dropout and of adapters (default: 0)"),
)


def _add_train(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    _add_data(parser)
    _add_step(parser)
    _add_run(parser)
    # The first time, it lets the step end, however long that takes.
    parser.set_defaults(command=commands.train, presses=2)


def _add_export(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of whileback train --out")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--from",
        dest="tensors",
        metavar="FILE.safetensors",
        help="take these tensors, such as another program has trained; RUN is the model then",
    )
    for name, best in (("best", True), ("last", False)):
        which.add_argument(
            f"--{name}",
            dest="best",
            action="store_const",
            const=best,
            help=f"take {name}.safetensors (default: the best one if --eval was given)",
        )
    parser.add_argument(
        "--average", action="store_true", help="take the moving averages that train --average keeps"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(command=commands.export)


def _add_artifacts(parser: Parser) -> None:
    parser.epilog = (
        "FOLDER gets training_step.onnx, eval.onnx, checkpoint.safetensors and what tells of them."
    )
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    _add_step(parser)
    parser.add_argument("--flat", action="store_true", help="join all parameters to one vector")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where to write")
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.set_defaults(command=commands.artifacts)


def _add_data(command: argparse.ArgumentParser) -> None:
    parser = command.add_argument_group("data")
    parser.add_argument("--data", nargs="+", required=True, metavar="FILE", help=_DATA)
    parser.add_argument(
        "--eval", nargs="+", metavar="FILE", help="the same to evaluate after each epoch"
    )
    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        default=[],
        metavar="INPUT=NAME",
        help="what an input is called in the data: x=pixels, x=a,b,c, 'x=pixel*'; or a constant",
    )
    parser.add_argument(
        "--axis",
        nargs="+",
        action="extend",
        default=[],
        metavar="INPUT=AXIS",
        help="the axis of an input along which examples are, if not the first: state=1",
    )


def _add_step(command: argparse.ArgumentParser) -> None:
    """Add what makes a step; `StepRecipe` has the same names."""
    parser = command.add_argument_group("what a step does")
    parser.add_argument(
        "--loss",
        action="append",
        required=True,
        metavar="NAME[,SETTING=VALUE][:OUTPUT[=LABEL]]",
        help=f"{', '.join(LOSSES)}; such as cross-entropy,label_smoothing=0.1 or mse:price=y; may "
        "be given several times",
    )
    parser.add_argument("--label", metavar="NAME", help="what it compares with (default: label)")
    parser.add_argument(
        "--optimizer",
        required=True,
        metavar="NAME[,SETTING=VALUE]",
        help=f"{', '.join(OPTIMIZERS)}; such as sgd,momentum=0.9",
    )
    for name, metavar, text in _LISTS:
        parser.add_argument(
            f"--{name}", nargs="+", action="extend", default=[], metavar=metavar, help=text
        )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="PATTERN,SETTING=VALUE",
        help="parameters trained otherwise: '*bias,rate=10,weight_decay=0'",
    )
    for name, kind, default, text in _NUMBERS:
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=text)
    _add_types(parser)


def _add_types(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--precision",
        choices=["float16", "bfloat16"],
        help="compute products in 16 bits, and keep parameters in 32",
    )
    parser.add_argument(
        "--quantized",
        choices=["straight-through"],
        help="train a quantised model as if it did not round",
    )
    parser.add_argument(
        "--statistics",
        choices=["batch", "running"],
        default="batch",
        help="what BatchNormalization normalizes by: the batch, which running statistics follow "
        "(the default), or running statistics, which stay",
    )
    add_memory(parser)


def _add_run(command: argparse.ArgumentParser) -> None:
    parser = command.add_argument_group("the run")
    parser.add_argument(
        "--lr",
        dest="learning_rate",
        type=float,
        required=True,
        metavar="RATE",
        help="the learning rate",
    )
    parser.add_argument(
        "--schedule",
        metavar="NAME[,SETTING=VALUE]",
        help=f"of the learning rate: {', '.join(SCHEDULES)}; such as step,every=1000",
    )
    parser.add_argument(
        "--warmup", type=int, default=0, metavar="STEPS", help="in which the rate rises from 0"
    )
    parser.add_argument(
        "--epochs", type=int, required=True, metavar="N", help="how often to go through the data"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="examples in a batch (default: 32)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on with the run of the folder")
    parser.add_argument("--force", action="store_true", help="replace the run of the folder")
    parser.add_argument(
        "--engine", choices=ENGINES, default="onnxruntime", help="what runs steps (onnxruntime)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="of ONNX Runtime (all cores)")
    parser.add_argument(
        "--log-every", type=int, default=10, metavar="STEPS", help="to a line of log.jsonl (10)"
    )
    parser.add_argument(
        "--save-every", type=int, metavar="STEPS", help="to a checkpoint, beside one per epoch"
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="write events for TensorBoard as well"
    )


# What adds the arguments of each command that trains.
FILLS: dict[str, Fill] = {"train": _add_train, "export": _add_export, "artifacts": _add_artifacts}

"""What can be said on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from whileback import __version__
from whileback.cli import commands
from whileback.cli.completion import SHELLS, completion
from whileback.cli.memory import add_memory
from whileback.cli.training.parser import add_training
from whileback.engines import ENGINES

__all__ = ["parse"]

_DESCRIPTION = "Gradients of ONNX models, straight through their branches and loops."
_MODEL = "an ONNX file, text in .onnx.txt, or a Caffe2 net in .pb, .pbtxt or .minidb"
_NET = "a Caffe2 net in .pb or .pbtxt, or a predictor export in .minidb"
_INIT = "what fills a Caffe2 net's weights: init nets, or files of blobs"
_SHAPE = "type and shape of a Caffe2 net's input: data=1,3,224,224 or ids=INT32:N,5"
_INPUTS = "a value for an input: the name of a .npy file, or numbers such as 3.5 or [[1,2],[3,4]]"
_DERIVATIVES = {
    "gradient": (
        "write the model (or the Caffe2 net, as .pb or .pbtxt) that computes gradients of scalars"
    ),
    "vjp": "write the model that computes vector-Jacobian products, with cotangents as inputs",
    "jvp": "write the model that computes derivatives along a direction, with tangents as inputs",
    "hvp": "write the model that computes gradients, and products of the Hessian with tangents",
    "jacobian": "write the model that computes all derivatives of values of any shape",
    "hessian": "write the model that computes gradients of scalars, and all second derivatives",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments, the function to call among them as `command`.

    Inputs (`x=x.npy`) may stand anywhere, also behind `--wrt`, which would take them otherwise.
    """
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if "inputs" in arguments:
        _collect_inputs(arguments, rest)
    if rest:
        parser.error(f"unrecognized argument: {rest[0]}")
    return arguments


def _collect_inputs(arguments: argparse.Namespace, rest: list[str]) -> None:
    """Move inputs from where argparse has left them to `arguments.inputs`."""
    places = [vars(arguments)[key] for key in ("of", "wrt", "init") if key in arguments]
    for words in (*places, rest):
        arguments.inputs += [word for word in words if _is_input(word)]
        words[:] = [word for word in words if not _is_input(word)]


def _is_input(word: str) -> bool:
    return "=" in word and not word.startswith("-")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the usage and the message as all other errors are printed."""
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="whileback", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"whileback {__version__}")
    # Ctrl-C, pressed so often, ends a command within seconds.
    parser.set_defaults(presses=1, failed=1)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_derivatives,
        _add_check,
        _add_convert,
        _add_run,
        _add_show,
        _add_diff,
        _add_profile,
        _add_rules,
        add_training,
    ):
        add(subparsers)
    _add_completion(subparsers, parser)
    return parser


_Subparsers = argparse._SubParsersAction  # what add_subparsers returns has no public name


def _add_derivatives(subparsers: _Subparsers[_Parser]) -> None:
    for name, text in _DERIVATIVES.items():
        parser = subparsers.add_parser(name, help=text, description=_sentence(text))
        _add_values(parser, memory=name != "jvp")  # for which nothing is kept
        if name in ("gradient", "hvp", "hessian"):
            parser.add_argument(
                "--reduce", choices=["sum"], help="differentiate the sum of all elements"
            )
        if name != "jvp":  # which keeps all trips together
            _add_truncation(parser)
        _add_solutions(parser)
        _add_output(parser)
        parser.set_defaults(command=getattr(commands, name))


def _add_check(subparsers: _Subparsers[_Parser]) -> None:
    text = (
        "compare gradients with finite differences; exit status 0 if none is wrong, 1 if one is, "
        "2 if that could not be found out"
    )
    parser = subparsers.add_parser("check", help=text, description=_sentence(text))
    _add_values(parser)
    parser.add_argument(
        "inputs", nargs="*", default=[], metavar="NAME=VALUE", help=f"{_INPUTS}; else random"
    )
    _add_truncation(parser)
    _add_solutions(parser)
    parser.add_argument("--seed", type=int, default=0, help="makes the random values (default: 0)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--junit", metavar="FILE.xml", help="write a JUnit report, too")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(command=commands.check, failed=2)


def _add_convert(subparsers: _Subparsers[_Parser]) -> None:
    text = "write a Caffe2 net as an ONNX model"
    parser = subparsers.add_parser("convert", help=text, description=_sentence(text))
    parser.add_argument("model", metavar="NET", help=_NET)
    parser.add_argument("init", nargs="*", default=[], metavar="INIT", help=_INIT)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--input", nargs="+", action="extend", default=[], metavar="NAME=SHAPE", help=_SHAPE
    )
    parser.add_argument(
        "--check", metavar="FILE.npz", help="write only if recorded inputs give recorded outputs"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(command=commands.convert)


def _add_run(subparsers: _Subparsers[_Parser]) -> None:
    text = "run a model and print its outputs"
    parser = subparsers.add_parser("run", help=text, description=_sentence(text))
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("inputs", nargs="*", default=[], metavar="NAME=VALUE", help=_INPUTS)
    parser.add_argument(
        "--init", nargs="+", action="extend", default=[], metavar="FILE", help=_INIT
    )
    parser.add_argument("--engine", choices=ENGINES, help="what runs a model (onnxruntime)")
    parser.add_argument(
        "--explain", action="store_true", help="tell what was compiled, and how large stacks are"
    )
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="save the outputs, too")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(command=commands.run)


def _add_show(subparsers: _Subparsers[_Parser]) -> None:
    text = "print what a model is: all of it if it fits on a screen, or else one screen of it"
    parser = subparsers.add_parser("show", help=text, description=_sentence(text))
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--all", action="store_true", help="print every node, each on a line")
    parts.add_argument("--node", metavar="NAME", help="print one node or value, and what reads it")
    parts.add_argument("--json", action="store_true", help="print what the model is as JSON")
    parts.add_argument("--html", metavar="FILE", help="draw it in a page for a browser instead")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--depth", type=int, metavar="N", help="print bodies down to this depth (0: none)"
    )
    _add_net_options(parser)
    parser.set_defaults(command=commands.show)


def _add_diff(subparsers: _Subparsers[_Parser]) -> None:
    text = (
        "tell what changed from one model to another; exit status 0 if nothing did, 1 if something "
        "did, 2 for an error"
    )
    parser = subparsers.add_parser("diff", help=text, description=_sentence(text))
    parser.add_argument("model", metavar="A", help=_MODEL)
    parser.add_argument("other", metavar="B", help="the same, changed")
    parser.add_argument("--all", action="store_true", help="show everything, not one screen of it")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    _add_net_options(parser)
    parser.set_defaults(command=commands.diff, failed=2)


def _add_profile(subparsers: _Subparsers[_Parser]) -> None:
    text = "run a model on ONNX Runtime and tell what each of its nodes takes"
    parser = subparsers.add_parser("profile", help=text, description=_sentence(text))
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument(
        "inputs", nargs="*", default=[], metavar="NAME=VALUE", help=f"{_INPUTS}; else random"
    )
    for option, metavar, text in (
        ("--svg", "FILE.svg", "draw a flame graph, too"),
        ("--folded", "FILE", "write folded stacks, too, for other tools"),
    ):
        parser.add_argument(option, metavar=metavar, help=text)
    for option, number, text in (
        ("--runs", 5, "how many runs there are, of which the fastest counts (5)"),
        ("--threads", 1, "how many threads compute, 0: as many as there are cores (1)"),
        ("--seed", 0, "makes the random values (0)"),
    ):
        parser.add_argument(option, type=int, default=number, metavar="N", help=text)
    parser.add_argument(
        "--optimization",
        choices=["disabled", "basic", "extended", "all"],
        default="all",
        help="what ONNX Runtime may put together (all)",
    )
    parser.add_argument("--all", action="store_true", help="show every node, each for itself")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--force", action="store_true", help="replace existing files")
    _add_net_options(parser)
    parser.set_defaults(command=commands.profile)


def _add_rules(subparsers: _Subparsers[_Parser]) -> None:
    text = "list what is known of every operator, or tell more of one"
    parser = subparsers.add_parser("rules", help=text, description=_sentence(text))
    parser.add_argument("operator", nargs="?", metavar="OP", help="such as MatMul, my.domain::Op")
    parser.set_defaults(command=commands.rules)


def _add_completion(subparsers: _Subparsers[_Parser], whole: _Parser) -> None:
    text = "print what a shell reads to complete commands, options and files"
    parser = subparsers.add_parser("completion", help=text, description=_sentence(text))
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(command=partial(completion, whole))


def _add_values(parser: argparse.ArgumentParser, memory: bool = True) -> None:
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    for option, text in (
        ("--of", "what to differentiate: values of the main graph"),
        ("--wrt", "with respect to what: inputs, initializers or other values"),
    ):
        parser.add_argument(option, nargs="+", required=True, metavar="NAME", help=text)
    parser.add_argument(
        "--quantized",
        choices=["straight-through"],
        help="differentiate what rounds to whole numbers as if it did not",
    )
    if memory:
        add_memory(parser)
    _add_net_options(parser)


def _add_truncation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--truncate",
        action="append",
        default=[],
        metavar="[LOOP=]TRIPS",
        help="carry no cotangent over more trips of a loop than that",
    )


def _add_solutions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--implicit",
        action="append",
        default=[],
        metavar="LOOP=CARRY",
        help="differentiate a loop at the solution to which it iterates what it carries",
    )


def _add_net_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (("--init", "FILE", _INIT), ("--input", "NAME=SHAPE", _SHAPE)):
        parser.add_argument(
            option, nargs="+", action="extend", default=[], metavar=metavar, help=text
        )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write")
    parser.add_argument("--opset", type=int, metavar="N", help="the newest opset to use")
    parser.add_argument("--ir-version", type=int, metavar="N", help="the newest IR version to use")
    parser.add_argument(
        "--external-data",
        choices=["reference", "copy"],
        help="what to do with weights that lie in another folder than the output",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")

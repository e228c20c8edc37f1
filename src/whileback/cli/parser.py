"""What can be said on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from whileback import __version__
from whileback.cli.completion import SHELLS, completion
from whileback.cli.memory import add_memory
from whileback.errors import nearest

__all__ = ["Fill", "Parser", "parse"]

_DESCRIPTION = "Gradients of ONNX models, straight through their branches and loops."
_MODEL = "an ONNX file, text in .onnx.txt, or a Caffe2 net in .pb, .pbtxt or .minidb"
_NET = "a Caffe2 net in .pb or .pbtxt, or a predictor export in .minidb"
_INIT = "what fills a Caffe2 net's weights: init nets, or files of blobs"
_SHAPE = "type and shape of a Caffe2 net's input: data=1,3,224,224 or ids=INT32:N,5"
_INPUTS = "a value for an input: the name of a .npy file, or numbers such as 3.5 or [[1,2],[3,4]]"
_ENGINES = ("auto", "onnxruntime", "reference", "xla")
_DERIVATIVES = {
    "gradient": "write the model with gradients of scalars",
    "vjp": "write the model with vector-Jacobian products: cotangents are inputs",
    "jvp": "write the model with derivatives along a direction: tangents are inputs",
    "hvp": "write the model with gradients, and products of the Hessian with tangents",
    "jacobian": "write the model with all derivatives of values of any shape",
    "hessian": "write the model with gradients and all second derivatives of scalars",
}
_EXAMPLES = """\
to begin with:
  whileback show model.onnx
  whileback gradient model.onnx --of loss --wrt weight -o model.grad.onnx
  whileback check model.onnx --of loss --wrt weight

whileback COMMAND --help tells more of a command.
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments, the function to call among them as `command`.

    Inputs (`x=x.npy`) may stand anywhere, also behind `--wrt`, which would take them otherwise.
    """
    parser = _parser()
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(2)
    known = _commands(parser)
    if not argv[0].startswith("-") and argv[0] not in known:
        parser.error(f"there is no command {argv[0]!r}; {nearest(argv[0], known)}")
    arguments: argparse.Namespace
    arguments, rest = parser.parse_known_args(argv)
    if "inputs" in arguments:
        _collect_inputs(arguments, rest)
    if rest:
        arguments.parser.refuse(rest[0])
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


class Parser(argparse.ArgumentParser):
    """Gets its arguments when they are needed, and says errors as all others are said."""

    def __init__(self, fill: Fill | None = None, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._fill = fill
        self.set_defaults(parser=self)

    def fill(self) -> None:
        """Add the arguments, unless that is done."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words as argparse does, which calls this for each command, too."""
        self.fill()
        return super().parse_known_args(args, namespace)

    def refuse(self, word: str) -> NoReturn:
        """Refuse a word for which there is no argument."""
        known = [option[2:] for option in self._option_string_actions if option[:2] == "--"]
        close = get_close_matches(word.partition("=")[0].strip("-"), known, n=1)
        hint = f"; did you mean '--{close[0]}'?" if word.startswith("-") and close else ""
        if word.partition("=")[0] == "--reduce" and "--wrt" in self._option_string_actions:
            hint = "; values of any shape are taken here as they are: leave it out"
        self.error(f"unrecognized argument: {word}{hint}")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message as all other errors are printed."""
        if message.endswith("required: MODEL") and "--wrt" in self._option_string_actions:
            message += ", before --of and --wrt, which take all words that follow them"
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message}\n")


Fill = Callable[[Parser], None]


def _parser() -> Parser:
    parser = Parser(
        prog="whileback",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"whileback {__version__}", help="print the version"
    )
    # Ctrl-C, pressed so often, ends a command within seconds.
    parser.set_defaults(presses=1, failed=1)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (text, fill) in _commands(parser).items():
        subparsers.add_parser(name, help=text, description=_sentence(text), fill=fill)
    return parser


def _commands(whole: Parser) -> dict[str, tuple[str, Fill]]:
    """Return what each command does, and what adds its arguments."""
    return {
        **{name: (text, partial(_derivative, name)) for name, text in _DERIVATIVES.items()},
        "check": ("compare gradients with finite differences", _check),
        "convert": ("write a Caffe2 net as an ONNX model", _convert),
        "run": ("run a model and print its outputs", _run),
        "show": ("print what a model is: all of a small one, one screen of a large one", _show),
        "diff": ("tell what changed from one model to another", _diff),
        "profile": ("run a model on ONNX Runtime and tell what each of its nodes takes", _profile),
        "rules": ("list what is known of every operator, or tell more of one", _rules),
        "train": ("train a model on data, into a folder from which it goes on", _training("train")),
        "export": ("write the model of a run with what it has learned", _training("export")),
        "artifacts": ("write steps of training for other languages", _training("artifacts")),
        "completion": (
            "print what a shell reads to complete commands, options and files",
            partial(_completion, whole=whole),
        ),
    }


def _later(name: str) -> Callable[[Any], int]:
    """Return the command of that name, which is imported when it runs: that takes a while."""

    def run(arguments: argparse.Namespace) -> int:
        status: int = getattr(import_module("whileback.cli.commands"), name)(arguments)
        return status

    return run


def _training(name: str) -> Fill:
    def fill(parser: Parser) -> None:
        import_module("whileback.cli.training.parser").FILLS[name](parser)

    return fill


def _derivative(name: str, parser: Parser) -> None:
    if name == "gradient":
        parser.epilog = (
            "Of a Caffe2 net, a FILE in .pb or .pbtxt is the net with gradient operators."
        )
    _add_values(parser, memory=name != "jvp")  # for which nothing is kept
    if name in ("gradient", "hvp", "hessian"):
        parser.add_argument(
            "--reduce", choices=["sum"], help="differentiate the sum of all elements"
        )
    if name != "jvp":  # which keeps all trips together
        _add_truncation(parser)
    _add_solutions(parser)
    _add_output(parser)
    parser.set_defaults(command=_later(name))


def _check(parser: Parser) -> None:
    parser.epilog = (
        "Exit status: 0 if no gradient is wrong, 1 if one is wrong or infinite, 2 if that could "
        "not be found out."
    )
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
    parser.set_defaults(command=_later("check"), failed=2)


def _convert(parser: Parser) -> None:
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
    parser.set_defaults(command=_later("convert"))


def _run(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("inputs", nargs="*", default=[], metavar="NAME=VALUE", help=_INPUTS)
    parser.add_argument(
        "--init", nargs="+", action="extend", default=[], metavar="FILE", help=_INIT
    )
    parser.add_argument("--engine", choices=_ENGINES, help="what runs a model (onnxruntime)")
    parser.add_argument(
        "--explain", action="store_true", help="tell what was compiled, and how large stacks are"
    )
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="save the outputs, too")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.set_defaults(command=_later("run"))


def _show(parser: Parser) -> None:
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
    parser.set_defaults(command=_later("show"))


def _diff(parser: Parser) -> None:
    parser.epilog = "Exit status: 0 if nothing changed, 1 if something did, 2 for an error."
    parser.add_argument("model", metavar="A", help=_MODEL)
    parser.add_argument("other", metavar="B", help="the same, changed")
    parser.add_argument("--all", action="store_true", help="show everything, not one screen of it")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="draw it in a page for a browser, too")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    _add_net_options(parser)
    parser.set_defaults(command=_later("diff"), failed=2)


def _profile(parser: Parser) -> None:
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
    parser.set_defaults(command=_later("profile"))


def _rules(parser: Parser) -> None:
    parser.add_argument("operator", nargs="?", metavar="OP", help="such as MatMul, my.domain::Op")
    parser.set_defaults(command=_later("rules"))


def _completion(parser: Parser, whole: Parser) -> None:
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

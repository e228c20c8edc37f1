"""What a wrong call gets to read: usage, one line, status 2."""

import subprocess
import sys

import pytest
from tests.cli.conftest import Command

import whileback
from whileback.cli.parser import _ENGINES, parse
from whileback.engines import ENGINES

GRADIENT_USAGE = """\
usage: whileback gradient [-h] --of NAME [NAME ...] --wrt NAME [NAME ...]
                          [--quantized {straight-through}]
                          [--memory [LOOP=]STRATEGY] [--init FILE [FILE ...]]
                          [--input NAME=SHAPE [NAME=SHAPE ...]]
                          [--reduce {sum}] [--truncate [LOOP=]TRIPS]
                          [--implicit LOOP=CARRY] -o FILE [--opset N]
                          [--ir-version N] [--external-data {reference,copy}]
                          [--force]
                          MODEL
"""


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_no_command(command: Command) -> None:
    assert command() == (2, "", command("--help").out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("shwo", "m.onnx"), "there is no command 'shwo'; did you mean 'show'?"),
        (
            ("x.onnx",),
            "there is no command 'x.onnx'; there are 17: 'gradient', 'vjp', 'jvp', …",
        ),
        (("show", "m.onnx", "--nod=y"), "unrecognized argument: --nod=y; did you mean '--node'?"),
        (("show", "m.onnx", "--colour"), "unrecognized argument: --colour"),
        (
            ("check", "m.onnx", "--of", "y", "--wrt", "x", "--reduce", "sum"),
            "unrecognized argument: --reduce; values of any shape are taken here as they are: "
            "leave it out",
        ),
        (("diff", "a", "b", "--jsn"), "unrecognized argument: --jsn; did you mean '--json'?"),
    ],
)
def test_misspelled_words(command: Command, words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert (result.status, result.out) == (2, "")
    assert result.err.splitlines()[-1] == f"error: {message}"


def test_engines_are_those_that_there_are() -> None:
    assert _ENGINES == ENGINES


def test_help_is_quick() -> None:
    """What takes long to import is not imported to say what can be said."""
    code = """import sys
from whileback.cli import main
for words in (["--version"], ["--help"], ["show", "--help"], []):
    try:
        main(words)
    except SystemExit:
        assert not {"numpy", "onnx", "onnx_ir"} & set(sys.modules), words"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("usage: ")) == (0, 2)


def test_missing_arguments(command: Command) -> None:
    assert command("gradient", "m.onnx") == (
        2,
        "",
        f"{GRADIENT_USAGE}error: the following arguments are required: --of, --wrt, -o/--output\n",
    )


def test_a_model_behind_words_that_take_it(command: Command) -> None:
    result = command("gradient", "--of", "y", "--wrt", "x", "m.onnx", "-o", "g.onnx")
    assert result.err.splitlines()[-1] == (
        "error: the following arguments are required: MODEL, before --of and --wrt, which take all "
        "words that follow them"
    )


def test_inputs_are_not_called_required(command: Command) -> None:
    assert command("run").err == (
        "usage: whileback run [-h] [--init FILE [FILE ...]]\n"
        "                     [--engine {auto,onnxruntime,reference,xla}] [--explain]\n"
        "                     [-o FILE.npz] [--force]\n"
        "                     MODEL [NAME=VALUE ...]\n"
        "error: the following arguments are required: MODEL\n"
    )


def test_help_begins_with_a_sentence(command: Command) -> None:
    assert "\n\nRun a model and print its outputs.\n" in command("run", "-h").out
    assert "\n\nWrite the model with vector-Jacobian products:" in command("vjp", "-h").out


def test_a_word_too_many(command: Command) -> None:
    result = command("show", "m.onnx", "x=3")
    assert result.err.splitlines()[-1] == "error: unrecognized argument: x=3"


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"whileback {whileback.__version__}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ("m.onnx", "--of", "y", "--wrt", "w", "v", "x=x.npy", "n=3"),
        ("m.onnx", "x=x.npy", "n=3", "--of", "y", "--wrt", "w", "v"),
        ("m.onnx", "x=x.npy", "--of", "y", "--wrt", "w", "v", "n=3"),
        ("--wrt", "w", "v", "--of", "y", "--seed", "0", "m.onnx", "x=x.npy", "n=3"),
        ("m.onnx", "--of", "y", "--wrt", "w", "v", "--seed", "0", "x=x.npy", "n=3"),
        ("m.onnx", "--wrt", "w", "v", "--of", "y", "x=x.npy", "n=3"),
    ],
)
def test_inputs_may_stand_anywhere(words: tuple[str, ...]) -> None:
    arguments = parse(("check", *words))
    assert (arguments.model, arguments.of, arguments.wrt) == ("m.onnx", ["y"], ["w", "v"])
    assert sorted(arguments.inputs) == ["n=3", "x=x.npy"]


def test_names_with_an_equals_sign_are_names_where_there_are_no_inputs() -> None:
    arguments = parse(("gradient", "m.onnx", "--of", "y", "--wrt", "a=b", "-o", "g.onnx"))
    assert arguments.wrt == ["a=b"]

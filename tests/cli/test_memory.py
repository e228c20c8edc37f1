"""`--memory`, `--truncate` and `--implicit` on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.conftest import Command

from whileback import budget
from whileback.cli.memory import read_implicit, read_memory, read_truncation
from whileback.errors import ArgumentError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (["checkpoint"], "checkpoint"),
        (["budget:100"], budget(100)),
        (["rnn=keep", "a=b=budget:9:27"], {"rnn": "keep", "a=b": budget(9, 27)}),
    ],
)
def test_strategies(words: list[str], expected: Any) -> None:
    assert read_memory(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["keep", "y=checkpoint"],
            "--memory is said of all loops (keep) and once more: say it once for all, or "
            "LOOP=STRATEGY for each.",
        ),
        (
            ["budget:many"],
            "--memory budget:many is no budget; give budget:FRAMES or budget:FRAMES:TRIPS, such "
            "as budget:100:1000000.",
        ),
    ],
)
def test_what_is_refused(words: list[str], expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_memory(words)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], None), (["20"], 20), (["rnn=20", "a=b=3"], {"rnn": 20, "a=b": 3})],
)
def test_truncation(words: list[str], expected: Any) -> None:
    assert read_truncation(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["many"], "--truncate many is no number of trips; give one, such as 20."),
        (["rnn=-1"], "--truncate -1 is no number of trips; give one, such as 20."),
        (
            ["3", "5"],
            "--truncate is said of all loops (3, 5) and once more: say it once for all, or "
            "LOOP=TRIPS for each.",
        ),
    ],
)
def test_truncation_that_is_refused(words: list[str], expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_truncation(words)
    assert str(error.value) == expected


def test_implicit_loops() -> None:
    assert read_implicit([]) == {}
    assert read_implicit(["newton=z", "a=b=c"]) == {"newton": "z", "a=b": "c"}
    with pytest.raises(ArgumentError) as error:
        read_implicit(["newton"])
    assert str(error.value) == (
        "--implicit newton is not of the form LOOP=CARRY: say which of the values that the loop "
        "carries is iterated to a solution."
    )


def test_a_truncated_gradient(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "w", "-o", "g.onnx")
    assert command("gradient", *words, "--truncate", "y=2") == (0, "", "")
    # Of x·w³ the last two factors count: 2·x·w².
    result = command("run", "g.onnx", "n=3", "x=[1,3]")
    assert result.out.splitlines()[-1] == "w_grad : FLOAT[2] = [ 0.5, 24. ]"


def test_an_implicit_gradient(command: Command) -> None:
    words = ("power.onnx.txt", "--of", "loss", "--wrt", "w", "-o", "g.onnx")
    assert command("gradient", *words, "--implicit", "Loop=v") == (0, "", "")
    result = command("run", "g.onnx", "n=200", "x=[1,3]", "w=[0.5,0.25]")
    names = [line.split(" : ")[0] for line in result.out.splitlines()]
    assert names == ["loss", "y", "Loop_residual", "w_grad"]
    assert result.out.splitlines()[-1] == "w_grad : FLOAT[2] = [0., 0.]"
    assert command("check", "power.onnx.txt", *words[1:5], "--implicit", "y=v", "n=0").status == 0

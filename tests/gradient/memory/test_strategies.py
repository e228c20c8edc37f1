"""What can be said of a loop's memory, what is done if nothing is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.judge import parse

from whileback import budget, show
from whileback.errors import ArgumentError
from whileback.gradient import vjp

LOOP = """(int64 M, float[SIZE] x) => (float[SIZE] y) {
  y = Loop(M, , x) <body = b (int64 i, bool c, float[SIZE] v) => (bool d, float[SIZE] u) {
    d = Identity(c)
    u = Tanh(v)
  }>
}"""
COUNTED = LOOP.replace("int64 M, ", "").replace(
    "{\n  y", "{\n  M = Constant<value_int = 1000>()\n  y", 1
)


CARRIED = "carried into the trip"
# The row of u alone is enough: to compute it again takes one of v.
RESULT = "computing it again would need v"


def notes(text: str, memory: Any = None) -> str:
    """Return what the text of a gradient says about the memory of its loops."""
    lines = map(
        str.strip, show(vjp(parse(text), "y", "x", memory=memory), everything=True).splitlines()
    )
    return "\n".join(line for line in lines if line.startswith("# ")) + "\n"


@pytest.mark.parametrize(
    ("text", "memory", "expected"),
    [
        (
            LOOP.replace("SIZE", "4"),
            None,
            "# keep: the number of trips is known only when it runs; a trip keeps 16 B:\n"
            f"#   u FLOAT[4], 16 B: {RESULT} FLOAT[4]\n",
        ),
        (
            COUNTED.replace("SIZE", "N"),
            None,
            "# keep: the sizes in its body are known only when it runs; a trip keeps:\n"
            f"#   u FLOAT[N]: {RESULT} FLOAT[N]\n",
        ),
        (
            COUNTED.replace("SIZE", "1024"),
            None,
            "# keep: it computes at most 3.9 MB in 1000 trips; a trip keeps 4.0 KB:\n"
            f"#   u FLOAT[1024], 4.0 KB: {RESULT} FLOAT[1024]\n",
        ),
        (
            COUNTED.replace("SIZE", "1048576"),
            None,
            "# checkpoint: it computes at most 3.9 GB in 1000 trips; a trip keeps 4.0 MB:\n"
            f"#   v_1 FLOAT[1048576], 4.0 MB: {CARRIED}\n",
        ),
        (
            LOOP.replace("SIZE", "4"),
            "recompute",
            f"# recompute, as asked for; a trip keeps 16 B:\n#   v FLOAT[4], 16 B: {CARRIED}\n",
        ),
        (
            COUNTED.replace("SIZE", "4"),
            {"y": budget(frames=100)},
            "# checkpoint: 64 frames at a time for 1000 trips; a trip keeps 16 B:\n"
            f"#   v_1 FLOAT[4], 16 B: {CARRIED}\n",
        ),
        (
            LOOP.replace("SIZE", "4"),
            {"Loop": budget(frames=1000, trips=1000)},
            "# keep: 1000 frames at a time for 1000 trips; a trip keeps 16 B:\n"
            f"#   u FLOAT[4], 16 B: {RESULT} FLOAT[4]\n",
        ),
    ],
)
def test_what_was_chosen_and_why(text: str, memory: Any, expected: str) -> None:
    assert expected in notes(text, memory)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (
            "kep",
            'memory=\'kep\' is unknown; give "keep", "recompute", "checkpoint" or '
            "budget(frames=…).",
        ),
        (
            {"z": "keep"},
            "memory= names 'z', but no loop of the model has that name or an output of that name; "
            "there are 2: 'Loop', 'y'",
        ),
        (
            budget(frames=10),
            "budget(frames=10) for loop 'Loop', whose number of trips is known only when it runs: "
            "say how many are expected, budget(frames=…, trips=…).",
        ),
        (
            budget(frames=10, trips=1000),
            "budget(frames=10) is too small for the 1000 trips of loop 'Loop': the least is 20.",
        ),
    ],
)
def test_what_is_refused(memory: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as error:
        vjp(parse(LOOP.replace("SIZE", "4")), "y", "x", memory=memory)
    assert str(error.value) == expected


def test_a_model_without_loops_has_none_of_that_name() -> None:
    text = "(float x) => (float y) { y = Tanh(x) }"
    with pytest.raises(ArgumentError) as error:
        vjp(parse(text), "y", "x", memory={"z": "keep"})
    assert str(error.value) == (
        "memory= names 'z', but no loop of the model has that name or an output of that name; "
        "the model has no loops"
    )


@pytest.mark.parametrize("arguments", [{"frames": 0}, {"frames": 3, "trips": -1}, {"frames": 2.5}])
def test_budgets_are_whole_numbers(arguments: dict[str, Any]) -> None:
    name, number = list(arguments.items())[-1]
    with pytest.raises(ArgumentError) as error:
        budget(**arguments)
    assert str(error.value) == f"budget({name}={number!r}): give a whole number from 1 on."

"""What `--memory`, `--truncate` and `--implicit` say of loops."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import whileback
from whileback.errors import ArgumentError

if TYPE_CHECKING:  # Imports that take half a second.
    from whileback.gradient.memory.marking import ImplicitLoops
    from whileback.gradient.memory.strategies import Memory, Strategy
    from whileback.gradient.memory.truncation import Truncate

__all__ = ["add_memory", "read_implicit", "read_memory", "read_truncation"]

T = TypeVar("T")


def add_memory(parser: argparse._ActionsContainer) -> None:
    """Add the option that `read_memory` reads."""
    parser.add_argument(
        "--memory",
        action="append",
        default=[],
        metavar="[LOOP=]STRATEGY",
        help="what to keep of loops: keep, recompute, checkpoint or budget:FRAMES[:TRIPS]",
    )


def read_memory(words: Sequence[str]) -> Memory:
    """Return the strategy for all loops, or those for some, such as `loop=checkpoint`.

    Raises:
        ArgumentError: both are said, or two for all; or a budget that is none.

    >>> read_memory(["rnn=checkpoint", "y=budget:100:5000"])
    {'rnn': 'checkpoint', 'y': Budget(frames=100, trips=5000)}
    """
    return _said("--memory", "STRATEGY", words, _strategy)


def read_truncation(words: Sequence[str]) -> Truncate:
    """Return the number of trips for all loops, or those for some, such as `loop=20`.

    Raises:
        ArgumentError: both are said, or two for all; or no number.

    >>> read_truncation(["rnn=20"])
    {'rnn': 20}
    """
    return _said("--truncate", "TRIPS", words, _number)


def read_implicit(words: Sequence[str]) -> ImplicitLoops:
    """Return the carried values of loops that are iterated to a solution.

    Raises:
        ArgumentError: a word is not of the form LOOP=CARRY.

    >>> read_implicit(["newton=z"])
    {'newton': 'z'}
    """
    for word in words:
        if "=" not in word:
            raise ArgumentError(
                f"--implicit {word} is not of the form LOOP=CARRY: say which of the values that "
                "the loop carries is iterated to a solution."
            )
    return {loop: carry for loop, _, carry in (word.rpartition("=") for word in words)}


def _said(
    option: str, what: str, words: Sequence[str], read: Callable[[str], T]
) -> T | Mapping[str, T] | None:
    """Return what is said once for all loops, or of some, each by its name."""
    named = [word for word in words if "=" in word]
    if not named and len(words) <= 1:
        return read(words[0]) if words else None
    if len(named) < len(words):
        raise ArgumentError(
            f"{option} is said of all loops ({', '.join(w for w in words if w not in named)}) and "
            f"once more: say it once for all, or LOOP={what} for each."
        )
    pairs = [word.rpartition("=") for word in named]
    return {loop: read(meant) for loop, _, meant in pairs}


def _strategy(word: str) -> Strategy:
    name, *numbers = word.split(":")
    if name != "budget":
        return cast("Strategy", word)  # The transformation refuses what it does not know.
    if not all(number.isdecimal() for number in numbers) or len(numbers) not in (1, 2):
        raise ArgumentError(
            f"--memory {word} is no budget; give budget:FRAMES or budget:FRAMES:TRIPS, such as "
            "budget:100:1000000."
        )
    return whileback.budget(*map(int, numbers))


def _number(word: str) -> int:
    if not word.isdecimal():
        raise ArgumentError(f"--truncate {word} is no number of trips; give one, such as 20.")
    return int(word)

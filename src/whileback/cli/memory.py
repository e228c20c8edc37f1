"""What `--memory` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from whileback.errors import ArgumentError
from whileback.gradient.memory.strategies import Memory, Strategy, budget

__all__ = ["read_memory"]


def read_memory(words: Sequence[str]) -> Memory:
    """Return the strategy for all loops, or those for some, such as `loop=checkpoint`.

    Raises:
        ArgumentError: both are said, or two for all; or a budget that is none.

    >>> read_memory(["rnn=checkpoint", "y=budget:100:5000"])
    {'rnn': 'checkpoint', 'y': Budget(frames=100, trips=5000)}
    """
    named = [word for word in words if "=" in word]
    if not named and len(words) <= 1:
        return _strategy(words[0]) if words else None
    if len(named) < len(words):
        raise ArgumentError(
            f"--memory is said of all loops ({', '.join(w for w in words if w not in named)}) and "
            "once more: say it once for all, or LOOP=STRATEGY for each."
        )
    pairs = [word.rpartition("=") for word in named]
    return {loop: _strategy(strategy) for loop, _, strategy in pairs}


def _strategy(word: str) -> Strategy:
    name, *numbers = word.split(":")
    if name != "budget":
        return cast(Strategy, word)  # The transformation refuses what it does not know.
    if not all(number.isdecimal() for number in numbers) or len(numbers) not in (1, 2):
        raise ArgumentError(
            f"--memory {word} is no budget; give budget:FRAMES or budget:FRAMES:TRIPS, such as "
            "budget:100:1000000."
        )
    return budget(*map(int, numbers))

"""Philox-4x32-10, a generator of random numbers that counts, in plain operators on integers.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder

__all__ = ["ROUNDS", "high_word", "low_word", "philox", "round_keys", "word"]

ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LARGEST = 0xFFFFFFFF


def word(op: Builder, *data: int) -> ir.Value:
    """Return a constant UINT64, the type in which two words of 32 bits can be multiplied.

    Several are UINT64[k,1,1].
    """
    numbers = np.array(data, np.uint64)
    return op.constant(numbers.reshape(() if len(data) == 1 else (-1, 1, 1)))


def low_word(op: Builder, value: ir.Value) -> ir.Value:
    """Return the lower 32 bits of UINT64."""
    return op.BitwiseAnd(value, word(op, _LARGEST))


def high_word(op: Builder, value: ir.Value) -> ir.Value:
    """Return the upper 32 bits of UINT64."""
    return op.BitShift(value, word(op, 32), direction="RIGHT")


def round_keys(op: Builder, key: ir.Value) -> Sequence[ir.Value]:
    """Return the key of each round, UINT64[2,1,1], for a key UINT64[2,1,1] of two words."""
    steps = [number * step for number in range(ROUNDS) for step in _KEY_STEPS]
    keys = low_word(op, op.Add(op.Tile(key, [ROUNDS, 1, 1]), word(op, *steps)))
    return op.emit("Split", [keys], {"axis": 0, "num_outputs": ROUNDS}, outputs=ROUNDS)


def philox(
    op: Builder, even: ir.Value, odd: ir.Value, keys: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return the random words of N counters.

    Args:
        op: emits six operators for each round.
        even: words 0 and 2 of each counter, UINT64[2,T,N], as all words below 2³².
        odd: words 1 and 3, UINT64[2,T,N] or broadcast to that.
        keys: of the rounds.

    Returns: words 0 and 2, and words 1 and 3, UINT64[2,T,N], independent and uniform.
    """
    factors = word(op, *_FACTORS)
    for key in keys:
        crossed = op.Gather(op.Mul(even, factors), [1, 0], axis=0)
        even = op.BitwiseXor(op.BitwiseXor(high_word(op, crossed), odd), key)
        odd = low_word(op, crossed)
    return even, odd

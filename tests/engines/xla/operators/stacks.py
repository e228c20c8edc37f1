"""Judges by ONNX Runtime what operators do with stacks whose rows only the run counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.engines.xla.operators.agreement import assert_agrees, normal

__all__ = ["assert_takes_rows"]


def assert_takes_rows(calls: Sequence[str], *, row: str = "3") -> None:
    """Assert that calls of operators, on stacks `S` and `T`, are right inside a loop.

    In each trip of the outer loop, an inner one makes one row more than in the trip before. What
    the calls give is added up over axis 0, so that it is as large in every trip. They can read W,
    its transpose V, a row B, the vectors `zero`, `one` and `two`, which have one element, the
    numbers `nothing` and `step`, which are 0 and 1, and S's `shape` and number of rows, `size`.
    """
    names = [f"Y{k}" for k in range(len(calls))]
    made = [
        f"{name}, {name}i = {call}" if call.startswith("TopK") else f"{name} = {call}"
        for name, call in zip(names, calls, strict=True)
    ]
    made += [f"{name}d = Cast<to = 11>({name})" for name in names]
    made += [f"{name}s = ReduceSum<keepdims = 0>({name}d, zero)" for name in names]
    outputs = ", ".join(f"double {name}s" for name in names)
    tapes = [f"{name}t" for name in names]
    text = f"""
    (float X, float W, float V, float B, int64 trips)
        => ({", ".join(f"double {tape}" for tape in tapes)})
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}},
        int64 step = {{1}}, int64 nothing = {{0}}, bool yes = {{1}}>
    {{
        {", ".join(tapes)} = Loop(trips, yes) <body = outer (int64 k, bool c)
            => (bool d, {outputs}) {{
            d = Identity(c)
            count = Add(k, step)
            S, T = Loop(count, yes) <body = inner (int64 j, bool e)
                => (bool f, float[{row}] s, float[{row}] t) {{
                f = Identity(e)
                s = Gather(X, j)
                t = Exp(s)
            }}>
            shape = Shape(S)
            size = Gather(shape, nothing)
            {" ".join(made)}
        }}>
    }}"""
    W = normal(4, 3)
    X = normal(5, *map(int, row.split(",")))
    inputs = {"X": X, "W": W, "V": W.T.copy(), "B": normal(3), "trips": np.array(4)}
    assert_agrees(text, inputs)

"""Models of one recurrent node, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.judge import assert_gradient
from tests.judge_forward import assert_tangents

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
INPUTS = {"RNN": "XWRBnh", "GRU": "XWRBnh", "LSTM": "XWRBnhcP"}
OUTPUTS = {"RNN": ["Y", "Yh"], "GRU": ["Y", "Yh"], "LSTM": ["Y", "Yh", "Yc"]}
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 2, 3


def sizes(operator: str, sides: int, steps: int = STEPS, batch: int = BATCH) -> dict[str, Any]:
    """Return the shapes of all inputs."""
    rows = GATES[operator] * HIDDEN
    return {
        "X": (steps, batch, FEATURES),
        "W": (sides, rows, FEATURES),
        "R": (sides, rows, HIDDEN),
        "B": (sides, 2 * rows),
        "n": (batch,),
        "h": (sides, batch, HIDDEN),
        "c": (sides, batch, HIDDEN),
        "P": (sides, 3 * HIDDEN),
    }


def layer(
    operator: str,
    given: str = "Bhc",
    attributes: str = "",
    *,
    direction: str = "forward",
    outputs: str = "",
    kind: str = "known",
    steps: int = STEPS,
    batch: int = BATCH,
) -> str:
    """Return the text of a model that is one node.

    Args:
        operator: LSTM, GRU or RNN.
        given: its optional inputs: B, n (the lengths), h, c, P; those it does not have are skipped.
        attributes: more than `hidden_size` and `direction`.
        direction: forward, reverse or bidirectional.
        outputs: those of Y, Yh and Yc that it has, separated by blanks; all if empty.
        kind: whether all dimensions of the inputs are known, the numbers of steps and sequences
            are symbols, or not even ranks are known.
        steps: how many steps there are.
        batch: how many sequences there are.
    """
    shapes = sizes(operator, 2 if direction == "bidirectional" else 1, steps, batch)
    used = [name for name in INPUTS[operator] if name in "XWR" + given]
    head, body = [], ""
    for name in used:
        dims = ",".join(map(str, shapes[name]))
        if kind == "symbols":
            dims = {"X": f"T,N,{FEATURES}", "n": "N", "h": f"{shapes[name][0]},N,{HIDDEN}"}.get(
                name, dims
            )
        head.append(f"{'int32' if name == 'n' else 'float'}[{dims}] {name}")
        if kind == "unknown":
            head.append(f"int64[{name}_rank] {name}_shape")
            body += f"{name}_same = Reshape({name}, {name}_shape) "
    read = [f"{name}_same" if kind == "unknown" else name for name in used]
    right = [read[used.index(name)] if name in used else '""' for name in INPUTS[operator]]
    named = outputs.split() or OUTPUTS[operator]
    left = [name if name in named else '""' for name in OUTPUTS[operator]]
    settings = [f"hidden_size = {HIDDEN}", f'direction = "{direction}"', attributes]
    body += f"{', '.join(left)} = {operator} <{', '.join(filter(None, settings))}> "
    results = [f"float[{'a,' if name == 'Y' else ''}b,d,e] {name}" for name in named]
    return f"({', '.join(head)}) => ({', '.join(results)}) {{ {body}({', '.join(right)}) }}"


def judge(
    operator: str,
    given: str = "Bhc",
    attributes: str = "",
    *,
    lengths: list[int] | None = None,
    second_order: bool = True,
    **options: Any,
) -> None:
    """Judge the gradients of all inputs of a layer, for cotangents of all its outputs.

    Args:
        operator: as in `layer`.
        given: as in `layer`.
        attributes: as in `layer`.
        lengths: the lengths of the sequences, if they are an input.
        second_order: judge the gradients of the gradients as well.
        options: as in `layer`, and `kinks` and `seed` of the judge.
    """
    settings = {key: options.pop(key) for key in ("kinks", "seed") if key in options}
    assert_gradient(
        *_question(operator, given, attributes, lengths, options),
        second_order=second_order,
        elements=6,
        directions=2,
        **settings,
    )


def judge_tangents(
    operator: str,
    given: str = "Bhc",
    attributes: str = "",
    *,
    lengths: list[int] | None = None,
    kinks: bool = False,
    **options: Any,
) -> None:
    """Judge the tangents of all outputs of a layer; for the arguments see `judge`."""
    question = _question(operator, given, attributes, lengths, options)
    assert_tangents(*question, kinks=kinks)


def _question(
    operator: str,
    given: str,
    attributes: str,
    lengths: list[int] | None,
    options: dict[str, Any],
) -> tuple[str, list[str], list[str], dict[str, Any]]:
    """Return a layer's text, what is differentiated, with respect to what, and inputs."""
    given += "" if lengths is None else "n"
    text = layer(operator, given, attributes, **options)
    used = [name for name in INPUTS[operator] if name in "XWR" + given]
    inputs = {} if lengths is None else {"n": np.array(lengths, np.int32)}
    if options.get("kind") == "unknown":
        sides = 2 if options.get("direction") == "bidirectional" else 1
        shapes = sizes(operator, sides, options.get("steps", STEPS), options.get("batch", BATCH))
        inputs |= {f"{name}_shape": np.array(shapes[name]) for name in used}
    elif options.get("kind") == "symbols":
        inputs["X"] = np.random.default_rng(5).normal(size=(STEPS, BATCH, FEATURES))
        inputs["X"] = inputs["X"].astype(np.float32)
    of = options.get("outputs", "").split() or OUTPUTS[operator]
    return text, of, [name for name in used if name != "n"], inputs

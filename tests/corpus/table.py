"""The page that says what became of every model: docs/corpus.md."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import get_args

import onnx
import onnxruntime
from tests.corpus.cases import cases
from tests.corpus.columns import COLUMNS, Column, Task
from tests.corpus.verdicts import Status, Verdict

__all__ = ["page"]

Verdicts = Mapping[Task, Verdict | None]

_HEAD = """\
# The corpus

Every model that ONNX tests its operators with, as far as it has a float input and a float output:
{count} models of ONNX {onnx}. For each, whileback makes the model that computes the gradients of
all float outputs with respect to all float inputs. It runs on ONNX Runtime {onnxruntime}, at the
arguments that ONNX recorded, with random cotangents. `make corpus` runs all of it again and writes
this page.

A model has **passed** if

* the gradients agree with finite differences of the model in float64: those that the gradient model
  gives in float64 to 1e-6 of the largest element, and those that it gives as it is up to rounding
  (5e-5 of the largest element for FLOAT, 2e-2 for FLOAT16, 1e-1 for BFLOAT16),
* and the other outputs of the gradient model agree with those of the model itself.

In float64 a model runs on ONNX Runtime, with definitions in the place of operators that have no
kernel for it; where that is not enough, in NumPy (`onnx.reference`, except for its loops). At kinks
there are no differences, and what is not finite has none: then arguments beside the recorded ones
are used. What a `Dropout` drew is held fixed. Sequences and optionals are made of tensors, and
taken apart into tensors.

**Not differentiable** (n.d.): all gradients are zero, as the differences are, or the model rounds
and whileback makes no zeros unasked; for the reasons given below. **Engine**: neither ONNX Runtime
nor NumPy runs the model itself. No model may be **wrong** or **refused**.

*Second order* judges the gradients of the gradients, with respect to inputs and cotangents. *Opset
9* to *opset 21* judge the models in these opsets, as far as they can be had there: the nodes as
they are if that is valid, with whatever they meant then; else with attributes where inputs were
attributes; else as ONNX's version converter writes them.
"""
_SHORT = {"passed": "", "not differentiable": "n.d."}


def page(verdicts: Verdicts) -> str:
    """Return the page for verdicts on all models in all columns."""
    count = len({name for _, name in verdicts})
    head = _HEAD.format(count=count, onnx=onnx.__version__, onnxruntime=onnxruntime.__version__)
    lines = [head, "## In all", "", *_totals(verdicts), "", "## By operator", ""]
    lines += ["Models that passed, unless it says otherwise.", "", *_operators(verdicts)]
    lines += ["", "## Not differentiable", "", *_reasons(verdicts)]
    lines += ["", "## In NumPy", "", "Gradients that ONNX Runtime has no kernels for.", ""]
    lines += _listed(verdicts, "passed")
    for status in ("engine", "wrong", "refused"):
        lines += ["", f"## {status.capitalize()}", "", *_listed(verdicts, status)]
    return "\n".join(lines) + "\n"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _header(*cells: str) -> list[str]:
    return [_row(*cells), f"|---|{'---:|' * (len(cells) - 1)}"]


def _totals(verdicts: Verdicts) -> Iterator[str]:
    yield from _header("", *(column.title for column in COLUMNS))
    counts = {column: Counter[str]() for column in COLUMNS}
    for (column, _), verdict in verdicts.items():
        if verdict is not None:
            counts[column][verdict.status] += 1
    for status in get_args(Status):
        yield _row(status, *(counts[column][status] for column in COLUMNS))
    yield _row("models", *(counts[column].total() for column in COLUMNS))


def _operators(verdicts: Verdicts) -> Iterator[str]:
    yield from _header("Operator", *(column.title for column in COLUMNS))
    counts: dict[str, dict[Column, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (column, name), verdict in verdicts.items():
        if verdict is not None:
            counts[cases()[name].operator][column][verdict.status] += 1
    for operator, row in sorted(counts.items()):
        yield _row(operator, *(_cell(row[column]) for column in COLUMNS))


def _cell(counts: Counter[str]) -> str:
    shown = (f"{count} {_SHORT.get(status, status)}" for status, count in sorted(counts.items()))
    return ", ".join(map(str.strip, shown)) or "–"


def _reasons(verdicts: Verdicts) -> Iterator[str]:
    reasons = {
        (cases()[name].operator, _reason(verdict.detail, name))
        for (_, name), verdict in verdicts.items()
        if verdict is not None and verdict.status == "not differentiable"
    }
    yield from (f"* {operator}: {reason}" for operator, reason in sorted(reasons))


def _reason(detail: str, name: str) -> str:
    return _without_names(detail, name).removeprefix(f"{cases()[name].operator}: ")


def _listed(verdicts: Verdicts, status: Status) -> Iterator[str]:
    """Yield the models that have a status and something to be said of it, by what that is."""
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (column, name), verdict in verdicts.items():
        if verdict is not None and verdict.status == status and verdict.detail:
            text = _without_names(verdict.detail, name)
            found[cases()[name].operator, text][name].append(column.title)
    for (operator, text), names in sorted(found.items()):
        models = ", ".join(f"`{name}` ({', '.join(titles)})" for name, titles in names.items())
        yield f"* {operator}: {text}: {models}"
    if not found:
        yield "None."


def _without_names(text: str, name: str) -> str:
    """Shorten a message, so that those of like models are the same."""
    first = " ".join(text.split("Version mismatch")[0].split())
    return re.sub(rf"'[^']*{re.escape(name)}[^']*'|node with name '[^']*'", "…", first)[:400]

"""Writes which of ONNX's node tests the engine passes: `python -m tests.engines.xla.table`.

Of each test the model itself, judged by ONNX's own runner, and of those of the corpus the gradient,
which must be that of ONNX Runtime, or of the engine that evaluates with NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases
from tests.corpus.cases import Case, cases
from tests.corpus.draws import freeze_draws
from tests.corpus.running import NoEngineError, agree, start
from tests.corpus.verdicts import cotangent
from tests.corpus.workers import run
from tests.engines.xla.nodes import node_tests

import whileback
from whileback.checking.check import cotangent_inputs
from whileback.engines import compile
from whileback.errors import WhilebackError
from whileback.graph.randomness import draws
from whileback.graph.scopes import definitions, walk, walk_graphs

__all__ = ["judge", "main"]

Task = tuple[str, str]
_SECONDS = 240
_BAD = ("wrong", "refused")
_DRAWS = "it draws random numbers, and no two runtimes draw the same"
NOT_HELD, CHANCE = "not held", "left to chance"
# Files of images are no arrays either.
_READS_FILES = ("ImageDecoder",)


def judge(task: Task) -> tuple[str, str]:
    """Return what became of a model or of its gradient, and why."""
    kind, name = task
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _forward(name) if kind == "model" else _gradient(cases()[name])


@cache
def _models() -> Mapping[str, ir.Model]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {each.name: ir.from_proto(each.model) for each in collect_testcases(None)}


@cache
def _tests() -> Mapping[str, unittest.TestCase]:
    return {test._testMethodName.removesuffix("_cpu"): test for test in node_tests()}


def _forward(name: str) -> tuple[str, str]:
    result = unittest.TestResult()
    _tests()[name].run(result)
    for kind, found in (("refused", result.errors), ("wrong", result.failures)):
        for _, text in found:
            if reason := _not_held(_models()[name]):
                return NOT_HELD, reason
            if kind == "wrong" and any(map(draws, walk(_models()[name].graph))):
                return CHANCE, _DRAWS
            return kind, text.strip().splitlines()[-1]
    return ("left out by the runner", "") if result.skipped else ("passed", "")


def _not_held(model: ir.Model) -> str:
    """Return why no array holds a value of the model, if that is so."""
    for node in walk(model.graph):
        if node.op_type in _READS_FILES:
            return "it reads the file of an image"
    for graph in walk_graphs(model.graph):
        for value in definitions(graph):
            if value.dtype == ir.DataType.STRING:
                return "it has strings"
    return ""


def _gradient(case: Case) -> tuple[str, str]:
    if any(draws(node) and node.op_type != "Dropout" for node in walk(case.model.graph)):
        return CHANCE, _DRAWS
    try:
        gradient = whileback.vjp(case.model, of=case.of, wrt=case.wrt)
        forward, _ = start(case.model, case.feeds)
        seeds = cotangent_inputs(case.model, gradient)
        results, rng = forward(case.feeds), np.random.default_rng(0)
        arguments = case.feeds | {
            str(seed.name): cotangent(results[name], rng)
            for seed, name in zip(seeds, case.of, strict=True)
        }
        _, gradient = freeze_draws(case, gradient, arguments)
        wanted = start(gradient, arguments)[0](arguments)
    except (WhilebackError, NoEngineError) as error:
        return "no gradient to compare", str(error)
    try:
        found = compile(gradient, engine="xla")(arguments)
    except WhilebackError as error:
        return "refused", str(error)
    # Behind a saturated state y, gradients are made of 1 - y², which is off by two roundings.
    least = 2 * np.finfo(np.float32).eps * _most(arguments, [str(seed.name) for seed in seeds])
    least *= max(1.0, _most(arguments, case.wrt))
    differing = _differing(wanted, found, least)
    if differing:
        with contextlib.suppress(WhilebackError):
            differing = _differing(compile(gradient, "reference")(arguments), found, least)
    return ("wrong", f"output {differing!r} differs") if differing else ("passed", "")


def _most(arguments: Mapping[str, Any], names: Sequence[str]) -> float:
    """Return the largest of the numbers."""
    return max(float(np.abs(arguments[name]).astype(float).max(initial=0)) for name in names)


def _differing(wanted: Mapping[str, Any], found: Mapping[str, Any], least: float) -> str:
    """Return the first output that is another one, or nothing."""
    return next((name for name, each in wanted.items() if _differ(each, found[name], least)), "")


def _differ(wanted: Any, found: Any, least: float) -> bool:
    if wanted is None or found is None:
        return wanted is not found
    if agree(wanted, found):
        return False
    is_array = isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f"
    return not (is_array and wanted.shape == found.shape and np.abs(wanted - found).max() <= least)


def main(arguments: Sequence[str]) -> int:
    """Judge all models whose names have a text in them; write a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    logging.disable()
    warnings.simplefilter("ignore")
    tasks = [("model", name) for name in _tests() if options.name in name]
    tasks += [("gradient", name) for name in cases() if options.name in name]
    verdicts: dict[Task, tuple[str, str]] = {}
    for task, result in run(judge, tasks, options.processes, _SECONDS):
        verdicts[task] = each = ("wrong", result) if isinstance(result, str) else result
        if each[0] in _BAD:
            print(*task, *each, sep=" | ", flush=True)
        if len(verdicts) % 200 == 0:
            print(f"{len(verdicts)} of {len(tasks)}", file=sys.stderr, flush=True)
    text = page({task: verdicts[task] for task in tasks})
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    print(text.partition("\n## ")[0])
    return 0


def page(verdicts: Mapping[Task, tuple[str, str]]) -> str:
    """Return the page: figures first, then all that do not pass, by name."""
    lines = [_HEAD]
    for kind, title in (("model", "Models"), ("gradient", "Gradients")):
        found = {name: each for (k, name), each in verdicts.items() if k == kind}
        counts = Counter(status for status, _ in found.values())
        compared = sum(counts[each] for each in ("passed", *_BAD))
        share = 100 * counts["passed"] / max(compared, 1)
        listed = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        lines.append(f"{title}: {len(found)}, of which {listed}. {share:.1f} % pass.\n")
    for kind, title in (("model", "Models"), ("gradient", "Gradients")):
        lines.append(f"## {title} that do not pass\n\n| test | | why |\n| --- | --- | --- |")
        lines += [
            f"| {name} | {status} | {_cell(why)} |"
            for (k, name), (status, why) in verdicts.items()
            if k == kind and status in (*_BAD, NOT_HELD, CHANCE)
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]


_HEAD = """# ONNX's own tests on XLA

Made by `make xla-table`. Models are judged by ONNX's own runner of backend tests. Gradients are
those of random cotangents for every model with a float input and a float output, and have to be
those of ONNX Runtime, or of the engine that evaluates with NumPy: some models ONNX Runtime does not
run, or not as ONNX's own test of them asks. "Not held" are models with strings or files of images,
which are no arrays.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

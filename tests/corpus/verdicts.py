"""Judges gradients of a model of the corpus against finite differences in float64.

They are judged at the recorded arguments. Where these make a result that is not finite, or where
nothing is seen but kinks or zeros, others are tried that are a little beside them.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import onnx_ir as ir
from tests.corpus.cases import Case
from tests.corpus.draws import freeze_draws
from tests.corpus.reasons import inactive

import whileback
from whileback.checking.check import Expectation, cotangent_feeds, cotangent_inputs, expectations
from whileback.checking.compare import compare_formulas, moved, rounding, run_moved
from whileback.checking.point import Point
from whileback.checking.report import Report
from whileback.engines import Compiled, compile
from whileback.errors import EngineError, WhilebackError, WhilebackWarning
from whileback.graph.randomness import draws

__all__ = ["Status", "Verdict", "judge"]

Status = Literal["passed", "not differentiable", "engine", "wrong", "refused"]
Arrays = dict[str, Any]

# How often other arguments are tried where kinks are seen, or zeros, which are mostly right.
_TRIES, _TRIES_OF_ZEROS = 8, 1
_NO_KERNEL = re.compile("an implementation for|find kernel for")
_FLOATS = frozenset(np.dtype(each.numpy()) for each in ir.DataType if each.is_floating_point())


@dataclass(frozen=True)
class Verdict:
    """What became of one model: how it ended, and the reason, the message or a remark."""

    status: Status
    detail: str = ""


class WrongError(Exception):
    """A gradient is wrong."""


class NoEngineError(Exception):
    """No engine runs a model as it is."""


def judge(case: Case, order: int = 1) -> Verdict:
    """Return the verdict on a model's gradients, for order 2 on the gradients of these."""
    try:
        with np.errstate(all="ignore"):
            return _judge(case, order)
    except WrongError as error:
        return Verdict("wrong", str(error))
    except NoEngineError as error:
        return Verdict("engine", str(error))
    except EngineError as error:
        return Verdict("wrong", f"No engine runs it in float64: {error}")
    except WhilebackError as error:
        return Verdict("refused", f"{type(error).__name__}: {error}")
    except Exception:
        return Verdict("wrong", f"It crashes:\n{traceback.format_exc(limit=-4)}")


def _judge(case: Case, order: int) -> Verdict:
    reasons = inactive(case)
    if len(reasons) == len(case.wrt):
        return _judge_zeros(case, reasons)
    judgement = _Judgement(case, reasons)
    if order > 1:
        return _judge(judgement.as_case(), order - 1)
    return Verdict("passed", judgement.judge())


def _judge_zeros(case: Case, reasons: Mapping[str, str]) -> Verdict:
    """Judge the gradients of a model that are all zero; those of one that draws are not judged."""
    if not any(map(draws, case.model.graph)):
        _Judgement(case, reasons).judge()
    return Verdict("not differentiable", "; ".join(dict.fromkeys(reasons.values())))


class _Judgement:
    """A model and its gradient model, compiled, at one point or several."""

    def __init__(self, case: Case, reasons: Mapping[str, str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WhilebackWarning)
            gradient_model = whileback.vjp(case.model, of=case.of, wrt=case.wrt)
        self.forward, problem = _start(case.model, case.feeds)
        results, rng = self.forward(case.feeds), np.random.default_rng(0)
        seeds = [str(seed.name) for seed in cotangent_inputs(case.model, gradient_model)]
        self.cotangents = {
            seed: _cotangent(results[name], rng) for seed, name in zip(seeds, case.of, strict=True)
        }
        arguments = case.feeds | self.cotangents
        self.case, self.gradient_model = freeze_draws(case, gradient_model, arguments)
        if self.case is not case:
            self.forward, problem = _start(self.case.model, self.case.feeds)
        self.own, self.remark = self._start_gradient(arguments, problem)
        # Of which values slopes are known; of which there are others than zero.
        self.known, self.seen = set[str](), set(reasons)

    def _start_gradient(self, arguments: Arrays, problem: str) -> tuple[Compiled, str]:
        """Compile the gradient model, which is to run wherever there are kernels for it."""
        try:
            own, refusal = _start(self.gradient_model, arguments)
        except NoEngineError as error:
            raise WrongError(f"The model runs, its gradient does not: {error}") from error
        if refusal and not problem and not _NO_KERNEL.search(refusal):
            raise WrongError(f"The model runs, its gradient does not: {refusal}")
        return own, f"in NumPy: {refusal}" if refusal else ""

    def as_case(self) -> Case:
        """Return the gradient model as a model whose own gradients can be judged."""
        feeds = self.case.feeds | self.cotangents
        return replace(
            self.case,
            model=self.gradient_model,
            feeds=feeds,
            of=list(self.own.outputs)[-len(self.case.wrt) :],
            wrt=[*self.case.wrt, *self.cotangents],
        )

    def judge(self) -> str:
        """Judge all gradients, at one point or several; return what is to be remarked.

        Raises: WrongError.
        """
        wanted, feeds, rng = set(self.case.wrt), self.case.feeds, np.random.default_rng(0)
        results = list(self.forward(feeds).values())
        sizes = _sizes(results)
        if all(map(_is_finite, results)) or not any(np.size(feeds[name]) for name in wanted):
            self._judge_at(feeds, results)
        for tried in range(_TRIES):
            if self.known >= wanted and (self.seen >= wanted or tried == _TRIES_OF_ZEROS):
                break
            feeds = {name: _beside(value, rng) for name, value in self.case.feeds.items()}
            try:
                results = list(self.forward(feeds).values())
            except EngineError:
                continue  # a float that says a size
            if all(map(_is_finite, results)) and _sizes(results) == sizes:
                self._judge_at(feeds, results)
        if not self.known >= wanted:
            raise WrongError(f"Nothing but kinks is seen of {sorted(wanted - self.known)}.")
        return self.remark

    def _judge_at(self, feeds: Arrays, results: Sequence[Any]) -> None:
        rng = np.random.default_rng(0)
        point = Point(self.case.model, self.case.of, self.case.wrt, feeds, rng)
        sizes = dict(zip(self.forward.outputs, map(np.shape, results), strict=True))
        if any(cotangent.shape != sizes[name] for name, cotangent in point.cotangents.items()):
            return  # a float that says a size, and rounds to another one in float64
        seeds = cotangent_inputs(self.case.model, self.gradient_model)
        arguments = feeds | cotangent_feeds(seeds, point)
        expected = expectations(point, self.gradient_model, arguments, rng, 64, 3)
        outputs = self.own(arguments)
        again = run_moved(self.own, moved(arguments, rng), outputs)
        _compare_forward(results, list(outputs.values()))
        own, beside = (list(run.values())[-len(expected) :] for run in (outputs, again))
        findings = [e.judge(*pair) for e, *pair in zip(expected, own, beside, strict=True)]
        if not Report(tuple(findings)).ok:
            raise WrongError(str(Report(tuple(findings))))
        for expectation, gradient in zip(expected, own, strict=True):
            self._note(expectation, gradient)

    def _note(self, expectation: Expectation, gradient: np.ndarray) -> None:
        compared = compare_formulas(expectation.slopes, gradient.astype(np.float64))
        smooth = [each for each in compared if not each.kink]
        if smooth or not compared:
            self.known.add(expectation.name)
        if any(each.got for each in smooth) or not compared:
            self.seen.add(expectation.name)


def _cotangent(result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.integers(-32, 32, np.shape(result)) / 16 + 1 / 32).astype(result.dtype)


def _start(model: Any, feeds: Arrays) -> tuple[Compiled, str]:
    """Return the compiled model, and why it does not run on ONNX Runtime, but in NumPy."""
    try:
        compiled = compile(model, threads=1)
        compiled(feeds)
        return compiled, ""
    except EngineError as error:
        problem = str(error)
    try:
        compiled = compile(model, "reference")
        compiled(feeds)
        return compiled, problem
    except EngineError as error:
        raise NoEngineError(f"{problem} {error}") from error


def _compare_forward(want: Sequence[Any], got: Sequence[Any]) -> None:
    """Ask the gradient model for the results of the model itself."""
    for index, (expected, found) in enumerate(zip(want, got, strict=False)):
        if not _agree(expected, found):
            raise WrongError(f"Output {index} was {expected} and is now {found}.")


def _agree(want: Any, got: Any) -> bool:
    if isinstance(want, list):
        return len(want) == len(got) and all(map(_agree, want, got))
    if not _is_float(want):
        return bool(np.array_equal(want, got))
    wide = want.astype(np.float64)
    scale = np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0)
    tolerance = rounding(want.dtype) * float(scale)
    same_size = np.shape(want) == np.shape(got)
    return same_size and np.allclose(got.astype(float), wide, 0, tolerance, equal_nan=True)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in _FLOATS


def _is_finite(value: Any) -> bool:
    return not _is_float(value) or bool(np.all(np.isfinite(value.astype(np.float64))))


def _sizes(values: Sequence[Any]) -> list[tuple[int, ...]]:
    return [np.shape(value) for value in values if isinstance(value, np.ndarray)]


def _beside(value: Any, rng: np.random.Generator) -> Any:
    """Return a float array near the given one, with a number for what is none."""
    if not _is_float(value):
        return value
    wide = value.astype(np.float64)
    finite = np.isfinite(wide)
    unit = float(np.sqrt(np.mean(wide[finite] ** 2))) if finite.any() else 0.0
    steps = np.where(finite, np.maximum(np.abs(wide), unit or 1.0) / 8, 1.0)
    near = np.where(finite, wide, 0.0) + steps * rng.uniform(-1, 1, wide.shape)
    return near.astype(value.dtype)

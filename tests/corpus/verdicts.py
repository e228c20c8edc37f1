"""Judges gradients of a model of the corpus against finite differences in float64.

They are judged at the recorded arguments. Where these make a result that is not finite, or where
nothing is seen but kinks or zeros, others are tried that are a little beside them.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from tests.corpus.arguments import beside, size_of
from tests.corpus.cases import Case
from tests.corpus.draws import freeze_draws
from tests.corpus.reasons import inactive
from tests.corpus.running import NoEngineError, agree, start

import whileback
from whileback.checking.check import Expectation, cotangent_feeds, cotangent_inputs, expectations
from whileback.checking.compare import compare_formulas, draw_moves, run_moved
from whileback.checking.point import Point
from whileback.checking.report import Report
from whileback.engines import Compiled
from whileback.errors import EngineError, NoGradientError, WhilebackError, WhilebackWarning
from whileback.graph.randomness import draws

__all__ = ["Status", "Verdict", "cotangent", "judge"]

Status = Literal["passed", "not differentiable", "engine", "wrong", "refused"]
Arrays = dict[str, Any]

# How often other arguments are tried; once where only zeros are seen, which are mostly right.
_TRIES = 8
_NO_KERNEL = re.compile("an implementation for|find kernel for")


@dataclass(frozen=True)
class Verdict:
    """What became of one model: how it ended, and the reason, the message or a remark."""

    status: Status
    detail: str = ""


class WrongError(Exception):
    """A gradient is wrong."""


def judge(case: Case, order: int = 1) -> Verdict:
    """Return the verdict on a model's gradients, for order 2 on the gradients of these."""
    try:
        with np.errstate(all="ignore"):
            return _judge(case, order, {})
    except WrongError as error:
        return Verdict("wrong", str(error))
    except NoEngineError as error:
        return Verdict("engine", str(error))
    except EngineError as error:
        return Verdict("wrong", f"No engine runs it in float64: {error}")
    except NoGradientError as error:
        # Operators that round have a gradient only for who asks for it, which the error says.
        rounds = 'quantized="straight-through"' in str(error)
        return Verdict("not differentiable" if rounds else "refused", f"NoGradientError: {error}")
    except WhilebackError as error:
        return Verdict("refused", f"{type(error).__name__}: {error}")
    except Exception:
        return Verdict("wrong", f"It crashes:\n{traceback.format_exc(limit=-4)}")


def _judge(case: Case, order: int, steepness: Mapping[str, float]) -> Verdict:
    reasons = inactive(case)
    if len(reasons) == len(case.wrt):
        return _judge_zeros(case, reasons)
    judgement = _Judgement(case, reasons, steepness)
    if order > 1:
        return _judge(judgement.as_case(), order - 1, judgement.steepness_of_gradients())
    return Verdict("passed", judgement.judge())


def _judge_zeros(case: Case, reasons: Mapping[str, str]) -> Verdict:
    """Judge the gradients of a model that are all zero; those of one that draws are not judged."""
    if not any(map(draws, case.model.graph)):
        _Judgement(case, reasons, {}).judge()
    return Verdict("not differentiable", "; ".join(dict.fromkeys(reasons.values())))


class _Judgement:
    """A model and its gradient model, compiled, at one point or several.

    `steepness` says of gradients among `of` what slope does not show in them: where a function of
    floats is saturated, theirs cannot be better, and those of their gradients neither.
    """

    def __init__(
        self, case: Case, reasons: Mapping[str, str], steepness: Mapping[str, float]
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WhilebackWarning)
            gradient_model = whileback.vjp(case.model, of=case.of, wrt=case.wrt)
        self.forward, problem = start(case.model, case.feeds)
        results, rng = self.forward(case.feeds), np.random.default_rng(0)
        seeds = [str(seed.name) for seed in cotangent_inputs(case.model, gradient_model)]
        self.cotangents = {
            seed: cotangent(results[name], rng) for seed, name in zip(seeds, case.of, strict=True)
        }
        arguments = case.feeds | self.cotangents
        self.case, self.gradient_model = freeze_draws(case, gradient_model, arguments)
        if self.case is not case:
            self.forward, problem = start(self.case.model, self.case.feeds)
        self.own, self.remark = self._start_gradient(arguments, problem)
        self.inactive, self.steepness = set(reasons), steepness
        # Of which values slopes are known; of which there are others than zero.
        self.known, self.seen = set[str](), set(reasons)

    def _start_gradient(self, arguments: Arrays, problem: str) -> tuple[Compiled, str]:
        """Compile the gradient model, which is to run wherever there are kernels for it."""
        try:
            own, refusal = start(self.gradient_model, arguments)
        except NoEngineError as error:
            raise WrongError(f"The model runs, its gradient does not: {error}") from error
        if refusal and not problem and not _NO_KERNEL.search(refusal):
            raise WrongError(f"The model runs, its gradient does not: {refusal}")
        return own, f"in NumPy: {refusal}" if refusal else ""

    def as_case(self) -> Case:
        """Return the gradient model as a model whose own gradients can be judged."""
        return replace(
            self.case,
            model=self.gradient_model,
            feeds=self.case.feeds | self.cotangents,
            of=list(self.own.outputs)[-len(self.case.wrt) :],
            wrt=[*self.case.wrt, *self.cotangents],
        )

    def steepness_of_gradients(self) -> dict[str, float]:
        """Return the slope of each gradient that does not show in the model's results."""
        results = self.forward(self.case.feeds)
        cotangents = zip(self.case.of, self.cotangents.values(), strict=True)
        size = sum(float(np.sum(np.abs(results[name] * dY))) for name, dY in cotangents)
        gradients = list(self.own.outputs)[-len(self.case.wrt) :]
        return {
            gradient: size / size_of(self.case.feeds[name])
            for gradient, name in zip(gradients, self.case.wrt, strict=True)
        }

    def judge(self) -> str:
        """Judge all gradients, at one point or several; return what is to be remarked.

        Raises: WrongError.
        """
        wanted, feeds, rng = set(self.case.wrt), self.case.feeds, np.random.default_rng(0)
        results = self.forward(feeds)
        sizes = {name: results[name].shape for name in self.case.of}
        if self._is_finite(results) or not any(feeds[name].size for name in wanted):
            self._judge_at(feeds, results)
        for tried in range(_TRIES):
            enough = self.known | self.inactive if tried else self.known & self.seen
            if enough >= wanted:
                break
            way = {"same_sizes": tried % 2 == 1, "apart": tried >= _TRIES // 2}
            feeds = {name: beside(value, rng, **way) for name, value in self.case.feeds.items()}
            try:
                results = self.forward(feeds)
            except EngineError:
                continue  # a float that says a size
            if self._is_finite(results) and all(results[n].shape == sizes[n] for n in sizes):
                self._judge_at(feeds, results)
        unknown = wanted - self.known - self.inactive
        if unknown:
            raise WrongError(f"Nothing but kinks is seen of {sorted(unknown)}.")
        return self.remark

    def _is_finite(self, results: Arrays) -> bool:
        return all(np.isfinite(results[name].astype(np.float64)).all() for name in self.case.of)

    def _judge_at(self, feeds: Arrays, results: Arrays) -> None:
        rng = np.random.default_rng(0)
        point = Point(self.case.model, self.case.of, self.case.wrt, feeds, rng)
        if any(array.shape != results[name].shape for name, array in point.cotangents.items()):
            return  # a float that says a size, and rounds to another one in float64
        seeds = cotangent_inputs(self.case.model, self.gradient_model)
        arguments = feeds | cotangent_feeds(seeds, point)
        expected = expectations(point, self.gradient_model, arguments, rng, 64, 3)
        outputs = self.own(arguments)
        self._compare_forward(results, outputs)
        again = run_moved(self.own, arguments, draw_moves(arguments, rng), outputs)
        own, other = (list(run.values())[-len(expected) :] for run in (outputs, again))
        expected = [self._let_pass(expectation, point) for expectation in expected]
        findings = [e.judge(*pair) for e, *pair in zip(expected, own, other, strict=True)]
        if any(finding.wrong for finding in findings):
            raise WrongError(str(Report(tuple(findings))))
        for expectation, gradient in zip(expected, own, strict=True):
            self._note(expectation, gradient)

    def _let_pass(self, expectation: Expectation, point: Point) -> Expectation:
        """Let that error pass in gradients of gradients which these may have."""
        size = sum(
            self.steepness.get(name, 0.0) * float(np.sum(np.abs(cotangent)))
            for name, cotangent in point.cotangents.items()
        )
        more = size / size_of(point.wrt[expectation.name])
        return replace(expectation, steepness=expectation.steepness + more)

    def _compare_forward(self, want: Arrays, got: Arrays) -> None:
        """Ask the gradient model for the results of the model itself."""
        for name, value in want.items():
            if not agree(value, got[name]):
                raise WrongError(f"Output {name} was {value} and is now {got[name]}.")

    def _note(self, expectation: Expectation, gradient: np.ndarray) -> None:
        compared = compare_formulas(expectation.slopes, gradient.astype(np.float64))
        smooth = [each for each in compared if not each.kink]
        if smooth or not compared:
            self.known.add(expectation.name)
        if any(each.got for each in smooth) or not compared:
            self.seen.add(expectation.name)


def cotangent(result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random cotangent of a result, none of whose numbers is zero."""
    return (rng.integers(-32, 32, np.shape(result)) / 16 + 1 / 32).astype(result.dtype)

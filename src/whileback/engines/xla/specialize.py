"""Compiles a model for what a run turns out to be, and runs it again where that was wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.facts import CutError, Facts, Trace, is_capacity

__all__ = ["Specializer"]

Run = Callable[[Mapping[str, Any], Trace], Sequence[Any]]


@dataclass
class Program:
    """A compiled program, the facts it takes for granted, and those that it reports."""

    run: Callable[..., Any]
    facts: dict[str, np.ndarray] = field(default_factory=dict)
    asked: list[tuple[str, tuple[int, ...], Any]] = field(default_factory=list)
    is_whole: bool = False

    def contradiction(self, report: np.ndarray) -> dict[str, np.ndarray]:
        """Return the first fact that the run found to be otherwise, or not known."""
        start = 0
        for key, shape, dtype in self.asked:
            size = int(np.prod(shape))
            value = report[start : start + size].reshape(shape).astype(dtype)
            start += size
            known = self.facts.get(key)
            if is_capacity(key):
                if value > (known if known is not None else 0):
                    return {key: _room(value)}
            elif known is None or not np.array_equal(known, value):
                return {key: value}
        return {}


def _room(count: np.ndarray) -> np.ndarray:
    """Return the next power of two, so that there are few programs."""
    return np.array(1 << max(int(count) - 1, 0).bit_length())


class Specializer:
    """A function whose programs are compiled for shapes and facts, as runs ask for them."""

    def __init__(self, trace: Run) -> None:
        self._trace = trace
        self._programs: dict[Any, list[Program]] = {}

    def __call__(self, arguments: Mapping[str, Any]) -> Sequence[Any]:
        """Run with these arguments; what the facts are is found by running."""
        signature = tuple((name, jnp.shape(a), str(a.dtype)) for name, a in arguments.items())
        programs = self._programs.setdefault(signature, [])
        facts: dict[str, np.ndarray] = {}
        while True:
            program = self._find(programs, facts) or self._compile(programs, facts, arguments)
            outputs, report = program.run(arguments)
            learned = program.contradiction(np.asarray(report)) if program.asked else {}
            if not learned and program.is_whole:
                return list(outputs)
            facts = {**program.facts, **learned}

    def _find(self, programs: list[Program], facts: Facts) -> Program | None:
        """Return the latest program that agrees with what is known."""
        for index, program in enumerate(reversed(programs)):
            if _agrees(program, facts):
                programs.append(programs.pop(-1 - index))
                return program
        return None

    def _compile(
        self, programs: list[Program], facts: Facts, arguments: Mapping[str, Any]
    ) -> Program:
        program = Program(run=lambda _: None, facts=dict(facts))

        def traced(arguments: Mapping[str, Any]) -> Any:
            trace = Trace(facts)
            try:
                outputs = list(self._trace(arguments, trace))
                program.is_whole = True
            except CutError:
                outputs = []
            reports = trace.reports
            program.asked = [(key, value.shape, value.dtype) for key, value in reports.items()]
            program.facts = {key: facts[key] for key in reports if key in facts}
            parts = [value.reshape(-1).astype(jnp.int64) for value in reports.values()]
            return outputs, jnp.concatenate(parts) if parts else jnp.zeros(0, jnp.int64)

        program.run = jax.jit(traced).lower(arguments).compile()
        programs.append(program)
        return program


def _agrees(program: Program, facts: Facts) -> bool:
    for key, value in facts.items():
        mine = program.facts.get(key)
        if mine is None:
            if not program.is_whole or key in {asked for asked, *_ in program.asked}:
                return False
        elif is_capacity(key):
            if mine < value:
                return False
        elif not np.array_equal(mine, value):
            return False
    return True

"""Compiles a model for what a run turns out to be, and runs it again where that was wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whileback.engines.xla.facts import (
    CutError,
    Facts,
    Trace,
    capacity_of,
    first_capacity,
    is_capacity,
)

__all__ = ["Specializer"]

# For so many numbers of trips a loop gets a program each, then one for all up to a power of two.
_FEW = 3

Run = Callable[[Mapping[str, Any], Trace], Sequence[Any]]
Parts = tuple[list[Any], list[Any]]


@dataclass
class Program:
    """A compiled program, the facts it takes for granted, and those that it reports.

    `foreseen` has the facts that are arguments, by their places, and `asked` the reported ones in
    order, with shapes and types; `held` is the last report by which all of them held, so that most
    reports need not be read.
    """

    run: Any
    facts: dict[str, np.ndarray] = field(default_factory=dict)
    foreseen: dict[str, int] = field(default_factory=dict)
    asked: dict[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)
    is_whole: bool = False
    is_compiled: bool = False
    held: bytes | None = None
    seconds: float = 0.0
    stacks: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def explain(self) -> str:
        """Tell for what the program was compiled, and how large its stacks are."""
        facts = [f"{key} = {value.tolist()}" for key, value in self.facts.items()]
        lines = [f"{'whole' if self.is_whole else 'first part'}, {self.seconds:.2f} s to compile"]
        lines[0] += f", for {', '.join(facts)}" if facts else ""
        for loop, (rows, size) in self.stacks.items():
            lines.append(f"loop {loop!r} stacks {rows} rows of {size} bytes: {rows * size} bytes")
        return "\n    ".join(lines)

    def mistake(self, parts: Parts) -> dict[str, np.ndarray]:
        """Return the first fact that an argument contradicts, or that is not known but by one."""
        for key, place in self.foreseen.items():
            spent, others = parts
            at = place - len(spent)
            value, known = np.asarray(others[at] if at >= 0 else spent[place]), self.facts.get(key)
            if known is None or value.tobytes() != known.tobytes():
                return {key: value}
        return {}

    def contradiction(self, report: jax.Array | None) -> dict[str, np.ndarray]:
        """Return the first fact that the run found to be otherwise, or not known."""
        if report is None:
            return {}
        found = np.asarray(report)
        if found.tobytes() == self.held:
            return {}
        start = 0
        for key, (shape, dtype) in self.asked.items():
            size = int(np.prod(shape))
            value = _decoded(found[start : start + size], dtype).reshape(shape)
            start += size
            known = self.facts.get(key)
            if is_capacity(key):
                if value > (first_capacity(key) if known is None else known):
                    return {key: _room(value)}
            elif known is None or not np.array_equal(_bits(known), _bits(value)):
                return {key: value}
        self.held = found.tobytes()
        return {}


def _room(count: np.ndarray) -> np.ndarray:
    """Return the next power of two, so that there are few programs."""
    return np.array(1 << max(int(count) - 1, 0).bit_length())


class Specializer:
    """A function whose programs are compiled for shapes and facts, as runs ask for them.

    Arguments that are `spent` hold nothing any more after a run: outputs are written over them,
    but not by a program that may have to run again with other facts.
    """

    def __init__(self, trace: Run, spent: Collection[str] = ()) -> None:
        self._trace, self._spent = trace, dict.fromkeys(spent)
        self._programs: dict[Any, list[Program]] = {}
        self._kernels = True

    def prepared(self, arguments: Mapping[str, Any]) -> Callable[[list[Any]], Sequence[Any]]:
        """Return what runs on arrays of the same shapes and types as the arguments, in order."""
        programs = self._programs.setdefault(_signature(arguments), [])
        names = tuple(arguments)
        if not self._spent:
            return lambda arrays: self._settled(programs, names, ([], arrays))
        return lambda arrays: self._settled(
            programs, *self._parted(dict(zip(names, arrays, strict=True)))
        )

    def _settled(
        self, programs: list[Program], names: Sequence[str], parts: Parts
    ) -> Sequence[Any]:
        """Run with these arrays; what the facts are is found by running."""
        facts: dict[str, np.ndarray] = {}
        while True:
            program = self._find(programs, facts)
            if program is None:
                program = self._make(facts, names, parts)
                programs.append(program)
            learned = program.mistake(parts)
            if not learned:
                try:
                    outputs, report = _run(program, parts)
                except Exception as error:
                    programs.remove(program)
                    if not self._may_go_on(program, facts, error):
                        raise
                    continue
                learned = program.contradiction(report)
                if not learned and program.is_whole:
                    return list(outputs)
            facts = {**program.facts, **learned}
            for key in learned:
                _leave_open(facts, key, programs)

    def _may_go_on(self, program: Program, facts: Facts, error: Exception) -> bool:
        """Tell whether another program may do where one has failed."""
        if self._kernels and "UNIMPLEMENTED" in str(error):
            self._kernels = False
            return True
        # It might have failed before it could tell that other facts hold this time.
        return not program.facts.keys() <= facts.keys()

    def explain(self, own: Collection[str] = ()) -> str:
        """Tell which programs there are, and why; `own` are arguments that no caller gives."""
        lines = []
        for signature, programs in self._programs.items():
            given = [
                f"{name} {dtype}{list(shape)}"
                for name, shape, dtype in signature
                if name not in own
            ]
            if compiled := [program for program in programs if program.is_compiled]:
                lines.append(f"for {', '.join(given) or 'no inputs'}:")
                lines += [f"  {program.explain()}" for program in compiled]
        return "\n".join(lines) or "nothing is compiled before the first call"

    def text(self, arguments: Mapping[str, Any]) -> str:
        """Return, in XLA's own form, the optimized program that last ran on such arguments."""
        program = self._programs[_signature(arguments)][-1]
        text: str = program.run.lower(*self._parted(arguments)[1]).compile().as_text()
        return text

    def _parted(self, arguments: Mapping[str, Any]) -> tuple[list[str], Parts]:
        """Return the names and arrays of arguments: of those that are spent, then of the others."""
        spent = [name for name in self._spent if name in arguments]
        others = [name for name in arguments if name not in self._spent]
        parts = [arguments[name] for name in spent], [arguments[name] for name in others]
        return [*spent, *others], parts

    def _find(self, programs: list[Program], facts: Facts) -> Program | None:
        """Return the latest program that agrees with what is known."""
        if programs and not facts:
            return programs[-1]
        for index, program in enumerate(reversed(programs)):
            if _agrees(program, facts):
                if index:
                    programs.append(programs.pop(-1 - index))
                return program
        return None

    def _make(self, facts: Facts, names: Sequence[str], parts: Parts) -> Program:
        """Return a program for these facts; it is compiled when it first runs."""

        def traced(spent: Sequence[Any], others: Sequence[Any]) -> Any:
            arrays = [*spent, *others]
            places = {id(array): place for place, array in enumerate(arrays)}
            trace = Trace(facts, places, kernels=self._kernels)
            try:
                outputs = list(self._trace(dict(zip(names, arrays, strict=True)), trace))
                program.is_whole = True
            except CutError:
                outputs = []
            _note(program, trace)
            reported = [_encoded(trace.reports[key]) for key in program.asked]
            return outputs, jnp.concatenate(reported) if reported else None

        program = Program(jax.jit(traced), dict(facts))
        start = time.perf_counter()
        program.run.trace(*parts)
        program.seconds = time.perf_counter() - start
        return program


def _signature(arguments: Mapping[str, Any]) -> Any:
    return tuple((name, array.shape, array.dtype) for name, array in arguments.items())


def _run(program: Program, parts: Parts) -> Any:
    """Run a program; the first time, note how long it takes to compile."""
    if program.is_compiled:
        return program.run(*parts)
    start = time.perf_counter()
    if parts[0] and program.is_whole and not program.asked:
        # It reports nothing that another run could follow from: arguments may be spent.
        program.run = jax.jit(program.run.__wrapped__, donate_argnums=0)
    results = program.run(*parts)
    program.seconds += time.perf_counter() - start
    program.is_compiled = True
    return results


def _note(program: Program, trace: Trace) -> None:
    """Note what the program reports, and which facts it has used."""
    places = {key: trace.given.get(id(value)) for key, value in trace.reports.items()}
    program.foreseen = {key: place for key, place in places.items() if place is not None}
    program.asked = {
        key: (value.shape, value.dtype)
        for key, value in trace.reports.items()
        if key not in program.foreseen
    }
    program.facts = {key: trace.facts[key] for key in trace.reports if key in trace.facts}
    program.stacks = {loop: each for loop, each in trace.stacks.items() if each[0] * each[1]}


def _encoded(value: Any) -> jax.Array:
    """Return any numbers as integers, without loss."""
    flat = jnp.ravel(value)
    if not jnp.issubdtype(flat.dtype, jnp.floating):
        return flat.astype(jnp.int64)
    return jax.lax.bitcast_convert_type(flat.astype(jnp.float64), jnp.int64)


def _bits(value: np.ndarray) -> np.ndarray:
    """Return what `_encoded` does, of what is known."""
    flat = np.ravel(value)
    if not jnp.issubdtype(flat.dtype, jnp.floating):
        return flat.astype(np.int64)
    return flat.astype(np.float64).view(np.int64)


def _decoded(report: np.ndarray, dtype: Any) -> np.ndarray:
    if jnp.issubdtype(dtype, jnp.floating):
        report = report.view(np.float64)
    return report.astype(dtype)


def _leave_open(facts: dict[str, np.ndarray], key: str, programs: Sequence[Program]) -> None:
    """Let a loop have room for some trips if there are programs for several numbers already."""
    capacity = capacity_of(key)
    if capacity is None:
        return
    if capacity in facts:
        # There was room, and yet the number itself was asked for.
        del facts[capacity]
        return
    seen = {program.facts[key].item() for program in programs if key in program.facts}
    if len(seen) >= _FEW or any(capacity in program.facts for program in programs):
        facts[capacity] = _room(facts.pop(key))


def _agrees(program: Program, facts: Facts) -> bool:
    """Tell whether a program may be right for a run of which these facts are known."""
    for key, value in facts.items():
        mine = program.facts.get(key)
        if mine is None:
            if not program.is_whole or key in program.asked or is_capacity(key):
                return False
        elif is_capacity(key):
            if mine < value:
                return False
        elif not np.array_equal(mine, value):
            return False
    return True

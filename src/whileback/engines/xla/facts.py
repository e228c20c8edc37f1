"""What a program takes for granted of a run, and how it tells whether that held.

XLA compiles for fixed shapes. What a shape depends on and only a run can tell (how many trips a
loop makes, where `NonZero` finds something, an input that is a shape) is a *fact*: the program is
compiled for its value, computes the true value beside, and reports it. Where a fact is not known
yet, the program ends there, and the report is all that it gives.

Inside a loop nothing can end: there, a stack has a *capacity*, and the report is the most that
was needed. So it is in a program that is part of somebody else's, which cannot be run again, and
where the number of trips differs from run to run. Whatever follows a wrong fact is without
meaning, so loops that follow make no trip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.accumulate import Sums
from whileback.engines.xla.linear import Numbers
from whileback.engines.xla.rows import Rows

__all__ = [
    "CutError",
    "Facts",
    "NotStaticError",
    "Trace",
    "capacity_of",
    "first_capacity",
    "is_capacity",
]

Facts = Mapping[str, np.ndarray]
Reports = dict[str, Any]

_CAPACITY = "capacity of "
_EXCEPTIONS = f"{_CAPACITY}exceptions from "
_TRIPS = "trips of "
# The room of a stack of which nobody has told how many rows it needs.
_SMALLEST = 16


class CutError(Exception):
    """The program can be compiled up to here, and ends with what it reports."""


class NotStaticError(Exception):
    """What a loop's body or a branch computes has to be known while compiling."""


@dataclass
class Trace:
    """What is known, taken for granted, and reported while one program is traced.

    `ok` tells whether all facts held so far; it is None as long as there are none. `reports` has
    the true value of each fact. `top` is the trace of the whole program, outside loops and
    branches; it knows by which names its values would be facts. `prefix` tells apart the trips
    of a loop that is written out. With `room`, a number of rows, the program cannot end early,
    and that is the capacity of all stacks. `chance` is the run's own words of chance, and `trips`
    the numbers of the trips of the loops around: random numbers depend on both. `sums` has what
    loops add up, see `accumulate`, `delayed` the nodes of which loops need the rows only, see
    there, and `numbers` what is known of integers, see `linear`.
    `latest` is the stack that was made last. `given` has the places of the program's arguments by
    identity: a fact that is one of them is checked before the program runs. `kernels` allows that
    loops become functions of machine code, see `control.kernel`.
    """

    facts: Facts
    given: Mapping[int, int] = field(default_factory=dict)
    ok: jax.Array | None = None
    reports: Reports = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    prefix: str = ""
    top: Trace | None = None
    room: int | None = None
    sums: Sums = field(default_factory=Sums)
    delayed: Collection[ir.Node] = ()
    stacks: dict[str, tuple[int, int]] = field(default_factory=dict)
    chance: jax.Array | None = None
    trips: tuple[Any, ...] = ()
    numbers: Numbers = field(default_factory=Numbers)
    latest: Rows | None = None
    kernels: bool = True

    def within(self, ok: jax.Array | None, *trip: Any) -> Trace:
        """Return the trace of a body or branch, whose `ok` and reports are values of its own."""
        top, trips = self.top or self, (*self.trips, *trip)
        return replace(self, ok=ok, reports={}, names={}, top=top, trips=trips)

    def written_out(self, node: str, trip: int) -> Trace:
        """Return the trace of a trip that is written out, the facts of which are its own."""
        return replace(self, prefix=f"{self.prefix}{node}[{trip}]/", trips=(*self.trips, trip))

    def key(self, name: str, seed: int | None) -> jax.Array:
        """Return the key by which a node draws random numbers.

        In each trip it is another one. With a seed, it is the same in every run.
        """
        if seed is not None:
            key = jax.random.key(seed)
        else:
            assert self.chance is not None
            key = jax.random.wrap_key_data(jnp.asarray(self.chance))
            key = jax.random.fold_in(key, crc32((self.prefix + name).encode()))
        for trip in self.trips:
            key = jax.random.fold_in(key, trip)
        return key

    @property
    def is_top(self) -> bool:
        """Tell whether this stands outside all loops and branches."""
        return self.top is None

    @property
    def can_end(self) -> bool:
        """Tell whether the program may end here, for what is found to be known in the next one."""
        return self.is_top and self.room is None

    def defined(self, name: str, value: Any) -> Any:
        """Return what a value of the whole program is: NumPy's array if it is a fact."""
        if not self.can_end or not isinstance(value, jax.Array):
            return value
        key = self.prefix + name
        if key in self.facts:
            return self.fact(name, value)
        self.names[id(value)] = key
        return value

    def static(self, key: str, value: Any) -> np.ndarray:
        """Return the value, which must be known while compiling.

        Raises:
            CutError: it is not known yet.
            NotStaticError: it is computed in a loop or a branch, where it may be many.
        """
        if isinstance(value, np.ndarray):
            return value
        top = self.top or self
        if (name := top.names.get(id(value))) is not None:
            top.reports[name] = value
            raise CutError(name)
        return self.fact(key, value)

    def fact(self, key: str, value: jax.Array) -> np.ndarray:
        """Return the value, for which the program is compiled.

        Raises: see `static`.
        """
        key = self.prefix + key
        if not self.can_end:
            raise NotStaticError(key)
        self.reports[key] = value
        if key not in self.facts:
            raise CutError(key)
        if id(value) not in self.given:
            is_inexact = jnp.issubdtype(value.dtype, jnp.inexact)
            self._require(jnp.array_equal(value, self.facts[key], equal_nan=is_inexact))
        return self.facts[key]

    def trip_count(self, loop: str, count: jax.Array) -> int:
        """Return how many trips a loop outside of all others makes; see `fact`."""
        return int(self.fact(_TRIPS + loop, count).item())

    def origin(self, loop: str) -> str:
        """Return which fact the number of trips of a loop is."""
        return self.prefix + _TRIPS + loop

    def capacity(self, loop: str) -> int | None:
        """Return for how many rows the stacks of a loop are to have room; None: for its trips."""
        known = self.facts.get(_CAPACITY + self.prefix + loop)
        if known is not None:
            return int(known.item())
        return None if self.can_end else self.room or _SMALLEST

    def needed(self, loop: str, count: jax.Array) -> None:
        """Report for how many rows the stacks of the loop needed room."""
        self.report_most({_CAPACITY + self.prefix + loop: count.astype(jnp.int64)})
        self._require(count <= (self.capacity(loop) or 0))

    def assumed(self, what: str, holds: jax.Array) -> bool:
        """Tell whether that may be taken for granted, until a run reports that it does not hold."""
        key = f"{_EXCEPTIONS}{self.prefix}{what}"
        if key in self.facts:
            (self.top or self).reports[key] = np.ones((), np.int64)
            return False
        self.report_most({key: jnp.where(holds, 0, 1).astype(jnp.int64)})
        self._require(holds)
        return True

    def report_most(self, reports: Reports) -> None:
        """Report what a body or a branch reports: of each capacity, the most that was needed."""
        for key, value in reports.items():
            before = self.reports.get(key)
            self.reports[key] = value if before is None else jnp.maximum(before, value)

    def _require(self, holds: jax.Array) -> None:
        self.ok = holds if self.ok is None else self.ok & holds


def is_capacity(key: str) -> bool:
    """Tell whether a fact is a number of rows for which there is room."""
    return key.startswith(_CAPACITY)


def first_capacity(key: str) -> int:
    """Return for how much there is room before a run tells: none for exceptions from a guess."""
    return 0 if key.startswith(_EXCEPTIONS) else _SMALLEST


def capacity_of(key: str) -> str | None:
    """Return which capacity stands for a fact if that is a number of trips."""
    before, found, loop = key.rpartition(_TRIPS)
    return _CAPACITY + before + loop if found else None

"""A profile as text: what takes most first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whileback.graph.tape import size_text
from whileback.profiling.profile import Cost, Profile

__all__ = ["to_table"]

_SHOWN = 15
_LOOP_TITLES = (
    *("loop", "operator", "trips", "ms", "µs a trip", "in nodes", "at most"),
    *("first in use", "most in use"),
)
_WIDTH = 32


@dataclass
class _Row:
    """A node of the model with the nodes of its gradient; times in microseconds."""

    name: str
    operator: str = ""
    forward: int = 0
    backward: int = 0
    runs: int = 0
    output: int = 0
    in_use: int = 0

    @property
    def time(self) -> int:
        return self.forward + self.backward


def to_table(profile: Profile, *, everything: bool = False) -> str:
    """Return the profile as text: one screen of it, or everything, each node apart."""
    rows = sorted(_rows(profile, everything), key=lambda row: -row.time)
    shown = rows if everything else rows[:_SHOWN]
    two = any(cost.is_backward for cost in profile.costs)
    lines = [
        _head(profile),
        "",
        *_aligned([_titles(two), *(_cells(r, profile, two) for r in shown)]),
    ]
    if len(shown) < len(rows):
        left = sum(row.time for row in rows[_SHOWN:]) / profile.time
        lines.append(f"… {len(rows) - len(shown)} more ({left:.0%} of the time), which --all shows")
    loops = list(_loops(profile))
    if loops:
        lines += ["", *_aligned([_LOOP_TITLES, *loops])]
    return "\n".join(lines)


def _head(profile: Profile) -> str:
    memory = f"; at most {size_text(profile.in_use)} in use" if profile.in_use else ""
    nodes = sum(cost.count for cost in profile.costs)
    return (
        f"{profile.model}: {profile.plain_time / 1000:.3f} ms a run on ONNX Runtime, "
        f"{profile.time / 1000:.3f} while nodes are noted;\n"
        f"{nodes} nodes run{memory} (the fastest of {profile.runs} runs)"
    )


def _rows(profile: Profile, apart: bool) -> Iterator[_Row]:
    own = profile.own_times()
    rows: dict[str, _Row] = defaultdict(lambda: _Row(""))
    for cost in profile.costs:
        row = rows[cost.name if apart else cost.source]
        row.name = cost.name if apart else cost.source
        if cost.is_backward:
            row.backward += own[cost.name]
        else:
            row.forward += own[cost.name]
        if apart or not cost.is_backward:
            row.operator = cost.operator
        row.runs = max(row.runs, cost.count)
        row.output += cost.output
        row.in_use = max(row.in_use, cost.in_use)
    yield from rows.values()


def _titles(two: bool) -> tuple[str, ...]:
    times = ("forward ms", "backward ms") if two else ("ms",)
    return ("node", "operator", "share", *times, "runs", "outputs", "in use")


def _cells(row: _Row, profile: Profile, two: bool) -> tuple[str, ...]:
    times = (row.forward, row.backward) if two else (row.time,)
    return (
        _short(row.name),
        row.operator or "-",
        f"{row.time / profile.time:.1%}",
        *(f"{time / 1000:.3f}" for time in times),
        f"{row.runs}",
        size_text(row.output),
        size_text(row.in_use),
    )


def _loops(profile: Profile) -> Iterator[tuple[str, ...]]:
    """Yield a row for each loop, those of a gradient after the one that they come from."""
    loops = [cost for cost in profile.costs if cost.is_loop]
    whole: dict[str, int] = defaultdict(int)
    for cost in loops:
        whole[cost.source] += cost.time
    for cost in sorted(loops, key=lambda c: (-whole[c.source], c.source, c.is_backward, -c.time)):
        yield (_short(cost.name), cost.operator, *_trips(cost))


def _trips(cost: Cost) -> tuple[str, ...]:
    count, in_use = len(cost.trip_times), cost.trip_in_use
    if not count:
        return ("0", f"{cost.time / 1000:.3f}", *[""] * 5)
    return (
        *(f"{count}", f"{cost.time / 1000:.3f}", f"{cost.time / count:.1f}"),
        *(f"{sum(cost.trip_times) / count:.1f}", f"{max(cost.trip_times):.1f}"),
        *(size_text(in_use[0]), size_text(max(in_use))),
    )


def _short(name: str) -> str:
    """Return the end of a long name, in which names of parts of a model differ."""
    return name if len(name) <= _WIDTH else f"…{name[1 - _WIDTH :]}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines; numbers, from the third column on, end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

"""What a gradient check found: a verdict per value, printed as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Comparison", "Finding", "Report"]


@dataclass(frozen=True)
class Comparison:
    """Two numbers that should agree: what the gradient model says, and what it should say."""

    where: str
    got: float
    want: float
    tolerance: float
    kink: bool = False

    @property
    def error(self) -> float:
        """How far apart they are; infinite if the gradient is not a number."""
        difference = abs(self.got - self.want)
        return difference if math.isfinite(difference) else math.inf

    @property
    def badness(self) -> float:
        """The error in units of the tolerance; at a kink only a finite number is asked for.

        An infinite one is right where a root starts, as at `Sqrt(0)`.
        """
        if self.kink:
            return 0.0 if math.isfinite(self.got) or self.got == self.want else math.inf
        if not self.error:
            return 0.0
        return self.error / self.tolerance if self.tolerance else math.inf


@dataclass(frozen=True)
class Finding:
    """The verdict on one value's gradient, and the place where it agrees least.

    Verdicts: `ok`; `WRONG`; `kink`: not smooth everywhere, the rest agrees; `zero`: agrees, but
    all of it is zero, so that nothing was seen; or what is wrong with the shape or type.
    """

    name: str
    type: str
    verdict: str
    worst: Comparison | None = None

    @property
    def ok(self) -> bool:
        """Tell whether nothing is wrong."""
        return self.verdict in ("ok", "kink", "zero")


@dataclass(frozen=True)
class Report:
    """The verdicts on all values that were asked for, in their order."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Tell whether nothing is wrong with any value."""
        return all(finding.ok for finding in self.findings)

    def __str__(self) -> str:
        head = ("value", "type", "verdict", "worst at", "gradient", "expected", "error", "allowed")
        rows = [head, *(_row(finding) for finding in self.findings)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)


def _row(finding: Finding) -> tuple[str, ...]:
    worst = finding.worst
    if worst is None:
        return (finding.name, finding.type, finding.verdict, "", "", "", "", "")
    return (
        finding.name,
        finding.type,
        finding.verdict,
        worst.where,
        f"{worst.got:.9g}",
        f"{worst.want:.9g}",
        f"{worst.error:.1e}",
        f"{worst.tolerance:.1e}",
    )

"""What a gradient check found: a verdict per value, printed as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "Finding", "Report"]

# So many kinks are told of in the text.
_SHOWN = 3
_NOTES = {
    "zero": "all of it is zero, so that nothing was seen; other inputs may show more",
    "infinite": "the slope of the model is infinite there, and so is its gradient",
    "unknown": (
        "the model gives NaN or infinite values there, or on both sides of it, so that there is "
        "nothing to compare with; give other inputs"
    ),
}


@dataclass(frozen=True)
class Comparison:
    """Two numbers that should agree: what the gradient model says, and what it should say.

    At a kink, `left` and `right` are the slopes on its two sides, as far as they are known.
    Where neither is, nothing is known of the gradient.
    """

    where: str
    got: float
    want: float
    tolerance: float
    kink: bool = False
    left: float = math.nan
    right: float = math.nan

    @property
    def error(self) -> float:
        """How far apart they are; infinite if the gradient is not a number."""
        if self.got == self.want or (math.isnan(self.got) and math.isnan(self.want)):
            return 0.0
        difference = abs(self.got - self.want)
        return difference if math.isfinite(difference) else math.inf

    @property
    def is_blind(self) -> bool:
        """Tell whether there are no numbers to compare with, on either side."""
        return self.kink and not (math.isfinite(self.left) or math.isfinite(self.right))

    @property
    def badness(self) -> float:
        """The error in units of the tolerance; at a kink only a finite number is asked for.

        An infinite one is right where a root starts, as at `Sqrt(0)`.
        """
        if self.is_blind:
            return 0.0
        if self.kink:
            return 0.0 if math.isfinite(self.got) or self.got == self.want else math.inf
        if not self.error:
            return 0.0
        return self.error / self.tolerance if self.tolerance else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "where": self.where,
            "gradient": self.got,
            "expected": self.want,
            "error": self.error,
            "allowed": self.tolerance,
        }


@dataclass(frozen=True)
class Finding:
    """The verdict on one value's gradient, and the place where it agrees least.

    Verdicts: `ok`; `WRONG`; `kink`: not smooth everywhere, the rest agrees; `zero`: agrees, but
    all of it is zero, so that nothing was seen; `infinite`: agrees, but is not finite everywhere;
    `unknown`: the model has no finite values to compare with; or what is wrong with the shape.

    Attributes:
        name: the value.
        type: the type and shape of its gradient.
        verdict: one of those above.
        worst: the place where the numbers agree least; None if they were not compared.
        kinks: where finite differences found no derivative, so that only a number was asked for.
        compared: how many elements or directions were compared with finite differences.
        seconds: how long that took.
    """

    name: str
    type: str
    verdict: str
    worst: Comparison | None = None
    kinks: tuple[Comparison, ...] = ()
    compared: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Tell whether the gradient is right, as far as there is one."""
        return self.verdict in ("ok", "kink", "zero")

    @property
    def wrong(self) -> bool:
        """Tell whether the gradient is not what it should be."""
        return self.verdict.startswith("WRONG")

    @property
    def summary(self) -> str:
        """The verdict as a phrase, with the numbers at the worst place."""
        at = self.worst
        if at is None:
            return self.verdict
        return (
            f"{self.verdict} at {at.where}: {at.got:.9g}, expected {at.want:.9g} "
            f"(error {at.error:.1e}, allowed {at.tolerance:.1e})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data, as `whileback check --json` prints it."""
        return {
            "name": self.name,
            "type": self.type,
            "verdict": self.verdict,
            "ok": self.ok,
            "compared": self.compared,
            "worst": self.worst and self.worst.to_dict(),
            "kinks": [
                {"where": at.where, "gradient": at.got, "left": at.left, "right": at.right}
                for at in self.kinks
            ],
        }

    @property
    def note(self) -> str:
        """What else there is to know, as a sentence: where the model is not smooth, or nothing."""
        if self.verdict in _NOTES:
            return _NOTES[self.verdict]
        if not self.kinks:
            return ""
        places = ", ".join(map(_kink, self.kinks[:_SHOWN]))
        more = f", and {len(self.kinks) - _SHOWN} more" if len(self.kinks) > _SHOWN else ""
        return (
            f"no derivative at {len(self.kinks)} of {self.compared} places, which are not judged: "
            f"{places}{more}"
        )


@dataclass(frozen=True)
class Report:
    """The verdicts on all values that were asked for, in their order."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Tell whether all gradients are right, as far as there are any."""
        return all(finding.ok for finding in self.findings)

    @property
    def status(self) -> int:
        """The exit status: 0 if all is right, 2 if something is unknown, 1 if it is worse."""
        verdicts = {finding.verdict for finding in self.findings if not finding.ok}
        return 0 if not verdicts else 2 if verdicts == {"unknown"} else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, as `whileback check --json` prints it."""
        return {"ok": self.ok, "values": [finding.to_dict() for finding in self.findings]}

    def __str__(self) -> str:
        head = ("value", "type", "verdict", "worst at", "gradient", "expected", "error", "allowed")
        rows = [head, *(_row(finding) for finding in self.findings)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        notes = (f"{finding.name}: {finding.note}" for finding in self.findings if finding.note)
        return "\n".join((*lines, *notes))


def _kink(at: Comparison) -> str:
    if not (math.isfinite(at.left) and math.isfinite(at.right)):
        slope = at.left if math.isfinite(at.left) else at.right
        return (
            f"{at.where} (gradient {at.got:.6g}, slope {slope:.6g} on the one side that there is)"
        )
    return f"{at.where} (gradient {at.got:.6g}, slopes {at.left:.6g} and {at.right:.6g})"


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

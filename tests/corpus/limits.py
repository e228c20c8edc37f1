"""Models that are known to be refused, each for a limit that whileback has and tells of."""

from __future__ import annotations

from tests.corpus.verdicts import Verdict

__all__ = ["LIMITS", "with_limits"]

_CARRIED = "an optional is carried by a loop"
_MESSAGE = "The gradient meets optionals that outlive a trip of a loop:"

LIMITS = {"test_loop16_seq_none": _CARRIED}


def with_limits(name: str, verdict: Verdict) -> Verdict:
    """Return the verdict on a model, with the limit in the place of the refusal."""
    limit = LIMITS.get(name)
    if limit is None:
        return verdict
    if verdict.status == "refused" and _MESSAGE in verdict.detail:
        return Verdict("limit", limit)
    return Verdict(
        "wrong", f"It was refused since {limit}, and is now: {verdict.status} {verdict.detail}"
    )

"""Models that are known to be refused, each for a limit that whileback has and tells of."""

from __future__ import annotations

from tests.corpus.verdicts import Verdict

__all__ = ["LIMITS", "with_limits"]

_CARRIED = "a sequence is carried by a loop"
_MESSAGE = "The gradient meets sequences or optionals that outlive a trip of a loop:"

LIMITS = dict.fromkeys(
    (
        "test_loop16_seq_none",
        "test_sequence_map_add_1_sequence_1_tensor_expanded",
        "test_sequence_map_add_2_sequences_expanded",
        "test_sequence_map_identity_1_sequence_1_tensor_expanded",
        "test_sequence_map_identity_1_sequence_expanded",
        "test_sequence_map_identity_2_sequences_expanded",
    ),
    _CARRIED,
)


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

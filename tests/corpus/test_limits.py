import pytest
from tests.corpus.columns import COLUMNS, verdict
from tests.corpus.limits import LIMITS, with_limits
from tests.corpus.verdicts import Verdict

CARRIED = "an optional is carried by a loop"


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_refused_for_the_reason_given(name):
    assert verdict((COLUMNS[0], name)) == Verdict("limit", CARRIED)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Verdict("passed"), "passed "),
        (Verdict("refused", "UnsupportedError: what?"), "refused UnsupportedError: what?"),
    ],
)
def test_what_is_no_limit_any_more_does_not_stay_one(found, told):
    assert with_limits("test_loop16_seq_none", found) == Verdict(
        "wrong", f"It was refused since {CARRIED}, and is now: {told}"
    )


def test_other_refusals_are_no_limits():
    refused = Verdict("refused", "NoGradientError: no rule")
    assert with_limits("test_abs", refused) == refused

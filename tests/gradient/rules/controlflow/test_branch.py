"""The order in which the branches of an `If` stand does not matter."""

import pytest
from tests.judge import assert_gradient

THEN = "then_branch = t () => (float[2] p) { p = Mul (x, x) }"
ELSE = "else_branch = e () => (float[2] q) { q = Mul (w, x) }"


@pytest.mark.parametrize(("head", "tail"), [(THEN, ELSE), (ELSE, THEN)], ids=["then", "else"])
@pytest.mark.parametrize("c", [True, False])
def test_either_branch_may_stand_first(head: str, tail: str, c: bool) -> None:
    assert_gradient(
        f"(float[2] x, float[2] w, bool c) => (float[2] y) {{ y = If (c) <{head}, {tail}> }}",
        of=["y"],
        wrt=["x", "w"],
        inputs={"c": c},
        second_order=True,
    )

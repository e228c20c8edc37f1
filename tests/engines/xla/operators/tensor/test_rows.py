"""What operators of tensors do with stacks whose rows only the run counts."""

from __future__ import annotations

from tests.engines.xla.operators.stacks import assert_takes_rows


def test_shapes() -> None:
    assert_takes_rows(
        [
            "Unsqueeze(S, one)",
            "Flatten<axis = 1>(S)",
            "Flatten<axis = -1>(S)",
            "Expand(B, shape)",
            "Transpose<perm = [0, 1]>(S)",
            "Reshape(S, shape)",
        ]
    )


def test_planes() -> None:
    assert_takes_rows(
        [
            "Transpose<perm = [0, 2, 1]>(S)",
            "Slice(S, one, two, two)",
            "Unsqueeze(S, two)",
            "Trilu(S)",
            "Flatten(S)",
        ],
        row="2,3",
    )


def test_parts() -> None:
    assert_takes_rows(
        [
            "Concat<axis = 1>(S, T)",
            "Concat<axis = -1>(S, T, S)",
            "Slice(S, zero, two, one)",
            "Slice(S, one, two, one)",
            "Gather<axis = 1>(S, one)",
            "Gather<axis = 0>(S, zero)",
        ]
    )


def test_choices() -> None:
    assert_takes_rows(["Where(yes, S, T)", "Where(yes, B, S)"])


def test_squeezes() -> None:
    assert_takes_rows(["Squeeze(S, one)"], row="1,3")

import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, ints, judge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_concat(axis, kind):
    z = X[:1] if axis in (0, -2) else X[:, :2]
    body = f"k = Mul(z, z) y = Concat<axis = {axis}>(h, k, h)"
    judge(body, kind, "float[C,D] z", wrt=["z", "x"], z=z)
    judge(body, kind, "float[C,D] z", wrt=["x"], z=z)


def test_concat_of_one_input_and_of_nothing():
    judge("y = Concat<axis = 0>(h)")
    judge("y = Concat<axis = 0>(h, z)", "float[B,3]", "float[0,3] z", z=X[:0])
    got = judge("y = Concat<axis = 0>(h, z)", "float[B,3]", "float[C,3] z", x=X[:0], z=X)
    assert got["x"].shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", [["y", "z"], ["y"], ["z"]])
def test_split(of, kind):
    for body in (
        "y, z = Split<axis = 0, num_outputs = 2>(h)",
        "y, z = Split<axis = -1, num_outputs = 2>(h)",
        f"{ints(s=[1, 2])} y, z = Split<axis = 1>(h, s)",
        f"{ints(s=[3, 0])} y, z = Split<axis = -1>(h, s)",
    ):
        judge(body, kind, of=of)


@pytest.mark.parametrize("kind", KINDS)
def test_split_sizes_at_run_time(kind):
    for sizes in ([1, 2], [0, 3]):
        for of in (["y", "z"], ["z"]):
            body = "y, z = Split<axis = 1>(h, s)"
            judge(body, kind, "int64[2] s", of=of, s=sizes)


def test_split_in_three_with_a_smaller_last_part():
    x = np.linspace(-1, 2, 8, dtype=np.float32)
    body = "y, z, v = Split<num_outputs = 3>(h)"
    for kind in ("float[8]", "float[N]"):
        judge(body, kind, of=["y", "v"], x=x)
        judge(body, kind, of=["z"], x=x)


def test_split_in_one_part():
    judge("y = Split<axis = 1, num_outputs = 1>(h)")

import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, ints, judge
from tests.judge import assert_gradient


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        "y = Identity(h)",
        f"{ints(s=[3, -1])} y = Reshape(h, s)",
        f"{ints(s=[0, 1, -1])} y = Reshape(h, s)",
        "y = Transpose(h)",
        "y = Transpose<perm = [0, 1]>(h)",
        f"{ints(a=[0, -1])} y = Unsqueeze(h, a)",
        f"{ints(a=[0, 2])} u = Unsqueeze(h, a) y = Squeeze(u, a)",
        f"{ints(a=[0, 2])} u = Unsqueeze(h, a) y = Squeeze(u)",
    ],
)
def test_views(body, kind):
    judge(body, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_at_run_time(kind):
    judge("y = Reshape(h, s)", kind, "int64[2] s", s=[-1, 2])
    judge("y = Reshape(h, s)", kind, "int64[k] s", s=[1, 3, 2])
    judge("y = Unsqueeze(h, a)", kind, "int64[2] a", a=[1, -1])
    judge("u = Unsqueeze(h, a) y = Squeeze(u, a)", kind, "int64[k] a", a=[2])


@pytest.mark.parametrize(("body", "rank"), [("Unsqueeze", 3), ("Squeeze", 2)])
def test_no_axes_at_run_time(body, rank):
    """ONNX Runtime squeezes all axes of size 1 then."""
    result = f"float[{','.join('DEF'[:rank])}] y"
    model = f"(float[A,B,C] x, int64[K] a) => ({result}) {{ y = {body}(x, a) }}"
    inputs = {"x": X.reshape(1, 2, 3), "a": np.zeros(0, np.int64)}
    assert_gradient(model, ["y"], ["x"], inputs, second_order=True)


def test_a_permutation_that_is_not_its_own_inverse():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for kind in ("float[2,3,4]", "float[A,B,C]", "float[]"):
        judge("y = Transpose<perm = [1, 2, 0]>(h)", kind, x=x)


@pytest.mark.parametrize("kind", ["float[0,3]", "float[B,3]", "float[A,B]"])
def test_no_elements(kind):
    got = judge(f"{ints(s=[3, 0])} y = Reshape<allowzero = 1>(h, s)", kind, x=X[:0])
    assert got["x"].shape == (0, 3)


@pytest.mark.parametrize("kind", ["float", "float[]"])
def test_a_scalar(kind):
    x = np.array(1.5, np.float32)
    judge(f"{ints(s=[1, 1])} y = Reshape(h, s)", kind, x=x)
    judge(f"{ints(a=[0])} y = Unsqueeze(h, a)", kind, x=x)


def test_axes_that_are_no_constant_although_they_have_a_default():
    judge("y = Unsqueeze(h, a)", "float[2,3]", "int64[1] a = {0}", a=[2])

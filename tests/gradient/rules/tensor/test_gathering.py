import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, judge
from tests.judge import assert_gradient

INDICES = [
    ("int64[4]", [1, -1, 0, 1]),
    ("int64[k]", [1, -2]),
    ("int64[2,2]", [[0, 0], [-1, 1]]),
    ("int64[j,k]", [[0, 0], [-1, 1]]),
    ("int64[0]", []),
    ("int64", -1),
    ("int64", 1),
]


@pytest.mark.parametrize(
    ("axis", "kind"), [*zip([-1, 0, -2, 0], KINDS, strict=True), (1, "float[2,3]"), (1, "float[]")]
)
@pytest.mark.parametrize(("type_", "indices"), INDICES)
def test_gather(axis, type_, indices, kind):
    i = np.array(indices, np.int64)
    judge(f"y = Gather<axis = {axis}>(h, i)", kind, f"{type_} i", i=i)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_with_short_indices(axis):
    for type_, indices in (("int32", -1), ("int32[2]", [1, 1])):
        i = np.array(indices, np.int32)
        judge(f"y = Gather<axis = {axis}>(h, i)", "float[A,B]", f"{type_} i", i=i)


def test_gather_on_the_middle_of_three_axes():
    x = np.linspace(-2, 3, 24, dtype=np.float32).reshape(2, 3, 4)
    for kind in ("float[2,3,4]", "float[A,3,C]", "float[A,B,C]"):
        for axis in (1, -2):
            body = f"y = Gather<axis = {axis}>(h, i)"
            judge(body, kind, "int64[2,2] i", i=[[0, -1], [2, 2]], x=x)
            judge(body, kind, "int64 i", i=np.array(1), x=x)


def test_repeated_and_negative_indices_add_up():
    """Conformance case 22."""

    def gradient(model, x, i):
        inputs = {"x": np.array(x, np.float32), "i": np.array(i, np.int64)}
        cotangent = assert_gradient(f"{model[:-1]} z = Mul(y, y) }}", ["z"], ["x"], inputs)
        return cotangent["x"]

    ones = gradient("(float[1] x, int64[2] i) => (float[2] z) { y = Gather(x, i) }", [1], [0, 0])
    assert ones.shape == (1,)
    columns = "(float[2,3] x, int64[3] i) => (float[2,3] z) { y = Gather<axis = 1>(x, i) }"
    assert (gradient(columns, X, [-1, 2, 0])[:, 1] == 0).all()
    pairs = "(float[2,2] x, int64[3,2] i) => (float[3] z) { y = GatherND(x, i) }"
    got = gradient(pairs, X[:, :2], [[0, 0], [1, 1], [1, 1]])
    assert ((got != 0) == np.eye(2, dtype=bool)).all()


def test_many_threads_lose_nothing():
    """What thousands of indices add to three rows is all there."""
    i = np.arange(60_000) % 3
    model = """(float[3,4] x, int64[60000] i) => (float y) {
      g = Gather(x, i)
      y = ReduceSum<keepdims = 0>(g)
    }"""
    got = assert_gradient(model, ["y"], ["x"], {"x": np.ones((3, 4), np.float32), "i": i})
    assert np.ptp(got["x"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_gather_elements(kind):
    rows, columns = [[0, -1, 1], [0, 0, 0], [1, 1, -2]], [[0, -1, 2, 2], [1, 1, 1, -3]]
    judge("y = GatherElements(h, i)", kind, "int64[3,3] i", i=rows)
    judge("y = GatherElements<axis = 1>(h, i)", kind, "int64[2,4] i", i=columns)
    judge("y = GatherElements<axis = -1>(h, i)", kind, "int64[j,k] i", i=columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("type_", "indices"),
    [
        ("int64[3,2]", [[0, 0], [1, -1], [1, -1]]),
        ("int64[k,1]", [[0], [-1], [0]]),
        ("int64[2,2,2]", [[[0, 0], [1, 1]], [[0, 2], [0, 2]]]),
        ("int64[2]", [1, -2]),
        ("int64[1]", [-1]),
    ],
)
def test_gather_nd(type_, indices, kind):
    judge("y = GatherND(h, i)", kind, f"{type_} i", i=np.array(indices, np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_gather_nd_in_batches(kind):
    body = "y = GatherND<batch_dims = 1>(h, i)"
    judge(body, kind, "int64[2,1] i", i=[[2], [-3]])
    judge(body, kind, "int64[2,2,1] i", i=[[[2], [2]], [[0], [-1]]])


@pytest.mark.parametrize("kind", KINDS)
def test_compress(kind):
    for axis, condition in ((0, [False, True]), (1, [True, False, True]), (-1, [True])):
        body = f"y = Compress<axis = {axis}>(h, c)"
        judge(body, kind, "bool[k] c", c=np.array(condition))
    judge("y = Compress(h, c)", kind, "bool[5] c", c=np.array([True, False, False, True, True]))


def test_half_precision_adds_up_in_single_precision():
    body = "y = Gather(h, i)"
    x = X.astype(np.float16)
    got = judge(body, "float16[B,3]", "int64[4] i", result="float16", x=x, i=[0, 0, 0, 1])
    assert got["x"].dtype == np.float16

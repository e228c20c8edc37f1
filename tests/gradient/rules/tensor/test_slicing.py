import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import KINDS, X, ints, judge
from tests.judge import assert_gradient

FAR = 2**63 - 1
SLICES = [(0, 2), (1, FAR), (-2, -1), (-9, 2), (7, 9), (2, 1), (1, 100), (-FAR, FAR)]
STEPS = [(0, 3, 2), (-1, -100, -1), (2, 0, -2), (0, 5, 3), (-1, -FAR, -1), (0, FAR, 1)]


@pytest.mark.parametrize(("axis", "kind"), zip([-1, 0, 1, 0], KINDS, strict=True))
def test_slice(axis, kind):
    run_time = "int64[1] s, int64[1] e, int64[1] a"
    for start, end in SLICES:
        judge(f"{ints(s=[start], e=[end], a=[axis])} y = Slice(h, s, e, a)", kind)
        judge("y = Slice(h, s, e, a)", kind, run_time, s=[start], e=[end], a=[axis])


@pytest.mark.parametrize(("axis", "kind"), zip([-1, 0, 1, 0], KINDS, strict=True))
def test_slice_in_steps(axis, kind):
    run_time = "int64[1] s, int64[1] e, int64[1] a, int64[1] t"
    for start, end, step in STEPS:
        known = ints(s=[start], e=[end], a=[axis], t=[step])
        judge(f"{known} y = Slice(h, s, e, a, t)", kind)
        judge("y = Slice(h, s, e, a, t)", kind, run_time, s=[start], e=[end], a=[axis], t=[step])


@pytest.mark.parametrize("kind", KINDS)
def test_slice_of_several_axes(kind):
    judge(f"{ints(s=[0, 1], e=[-1, 3])} y = Slice(h, s, e)", kind)
    judge(f"{ints(s=[-1, 0], e=[3, 1], a=[1, 0])} y = Slice(h, s, e, a)", kind)
    judge(f"{ints(s=[-1, 0], e=[-9, 9], a=[1, 0], t=[-2, 1])} y = Slice(h, s, e, a, t)", kind)
    judge(f"{ints(s=[1, 1], e=[-1, 3])} y = Slice(h, s, e)", kind)
    judge(f"{ints(s=[0, 1], e=[9, 9], t=[1, 1])} y = Slice(h, s, e, , t)", kind)
    judge("y = Slice(h, s, e)", kind, "int64[2] s, int64[k] e", s=[-1, -2], e=[9, 3])
    judge("y = Slice(h, s, e)", kind, "int64[k] s, int64[k] e", s=[1, 0], e=[2, 2])
    judge("y = Slice(h, s, e)", kind, "int64[k] s, int64[k] e", s=[1], e=[2])


@pytest.mark.parametrize("kind", ["float[2,3]", "float[A,B]"])
def test_slice_by_short_integers(kind):
    short = {"s": np.array([-2], np.int32), "e": np.array([9], np.int32)}
    short["a"] = np.array([1], np.int32)
    judge("y = Slice(h, s, e, a)", kind, "int32[1] s, int32[1] e, int32[1] a", **short)


def test_slice_where_only_some_axes_are_named():
    x = np.linspace(-2, 3, 24, dtype=np.float32).reshape(2, 3, 4)
    judge(f"{ints(s=[1], e=[2])} y = Slice(h, s, e)", "float[2,3,4]", x=x)
    judge(f"{ints(s=[1, 1], e=[2, 2], a=[-1, 0])} y = Slice(h, s, e, a)", "float[A,3,C]", x=x)


@pytest.mark.parametrize("a", [[1], [3], [-2], [3, 1]])
def test_slice_between_transpositions(a):
    x = np.linspace(-2, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    starts, ends = [1] * len(a), [3] * len(a)
    body = (
        "t = Transpose <perm = [0, 3, 1, 2]> (h) u = Slice(t, s, e, a) w = Mul(u, u) "
        "y = Transpose <perm = [0, 2, 3, 1]> (w)"
    )
    judge(f"{ints(s=starts, e=ends, a=a)} {body}", "float[1,2,3,4]", x=x)
    sizes = f"int64[{len(a)}] s, int64[{len(a)}] e"
    judge(f"{ints(a=a)} {body}", "float[1,2,3,4]", sizes, x=x, s=starts, e=ends)


PADS = [[0, 1, 0, 2], [1, 1, 2, 0], [1, -1, 0, 2], [-3, 5, 4, -4], [0, 0, 0, 0], [-1, -1, 0, -1]]


@pytest.mark.parametrize("kind", ["float[2,3]", "float[]"])
@pytest.mark.parametrize("pads", PADS)
def test_pad_with_a_value(pads, kind):
    body = "v = Mul(z, z) y = Pad(h, p, v)"
    z = np.float32(0.75)
    judge(f"{ints(p=pads)} {body}", kind, "float z", wrt=["x", "z"], z=z)
    judge(body, kind, "float z, int64[4] p", wrt=["x", "z"], z=z, p=pads)
    judge("y = Pad(h, p)", kind, "int64[4] p", p=pads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pad_with_copies(mode, kind):
    for pads in ([0, 1, 0, 2], [1, 1, 0, 2], [0, -1, 0, 1]):
        judge(f'{ints(p=pads)} y = Pad<mode = "{mode}">(h, p)', kind)
        judge(f'y = Pad<mode = "{mode}">(h, p)', kind, "int64[4] p", p=pads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["constant", "wrap"])
def test_pad_of_named_axes(mode, kind):
    body = f'y = Pad<mode = "{mode}">(h, p, , a)'
    judge(f"{ints(p=[1, 2], a=[-1])} {body}", kind)
    judge(f"{ints(p=[0, 1, 1, 0], a=[1, 0])} {body}", kind)
    judge(f"{ints(p=[1, 2])} {body}", kind, "int64[1] a", a=[1])
    judge(body, kind, "int64[2] p, int64[k] a", p=[1, 2], a=[-1])


def test_negative_pads_crop():
    """Conformance case 29."""
    model = "(float[1,1,4,4] x, int64[8] p, float v) => (float[A,B,C,D] y) { y = Pad(x, p, v) }"
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    for pads, rows, columns in (
        ([0, 0, 4, 1, 0, 0, -4, -1], range(0), range(0)),
        ([0, 0, -1, 0, 0, 0, 0, -2], range(1, 4), range(2)),
        ([0, 0, 1, -1, 0, 0, -1, 1], range(3), range(1, 4)),
    ):
        inputs = {"x": x, "p": np.array(pads, np.int64), "v": np.float32(2)}
        got = assert_gradient(model, ["y"], ["x", "v"], inputs)["x"][0, 0]
        where = np.zeros((4, 4), bool)
        where[np.ix_(rows, columns)] = True
        assert ((got != 0) == where).all()


def test_the_value_of_half_precision_and_of_one_element():
    half = {"x": X.astype(np.float16), "z": np.float16(0.5)}
    body = f"{ints(p=[1, 0, 0, 2])} v = Mul(z, z) y = Pad(h, p, v)"
    judge(body, "float16[A,B]", "float16 z", wrt=["x", "z"], result="float16", **half)

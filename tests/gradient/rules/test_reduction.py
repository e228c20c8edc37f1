import numpy as np
import pytest
from tests.gradient.rules.exact import gradients
from tests.gradient.rules.tensor.squares import KINDS, ints, judge
from tests.judge import parse

from whileback.engines import compile
from whileback.gradient import names, vjp

OPERATORS = [
    f"Reduce{name}" for name in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_known_axes(operator, kind):
    keep = KINDS.index(kind) % 2
    judge(f"{ints(a=[keep - 1])} y = {operator}<keepdims = {keep}>(h, a)", kind)


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_axes(operator):
    judge(f"y = {operator}<keepdims = 0>(h)")
    judge(f"y = {operator}(h)", "float[]")


@pytest.mark.parametrize(("kind", "keep"), [("float[A,B]", 1), ("float[]", 0), ("float[2,3]", 0)])
@pytest.mark.parametrize("operator", OPERATORS)
def test_axes_at_run_time(operator, kind, keep):
    judge(f"y = {operator}<keepdims = {keep}>(h, a)", kind, "int64[K] a", a=[-1])


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_and_no_axes_at_run_time(operator):
    for keep, axes in ((1, [0, -1]), (0, []), (1, [])):
        judge(f"y = {operator}<keepdims = {keep}>(h, a)", "float[A,B]", "int64[K] a", a=axes)


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_axes_may_mean_no_reduction(operator):
    call = f"{operator}<noop_with_empty_axes = 1>"
    judge(f"y = {call}(h)")
    judge(f"y = {call}(h, a)", "float[A,B]", "int64[K] a", a=[])
    judge(f"y = {call}(h, a)", "float[A,B]", "int64[K] a", a=[1])


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_scalar(operator):
    judge(f"y = {operator}(h)", "float", x=np.float32(1.5))


def test_a_norm_of_zeros_has_gradient_zero():
    """Conformance case S7."""
    model = "(float[2,2] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceL1<keepdims = 0>(x, a) }"
    got = gradients(model, {"x": [[0, 0], [3, -4]]}, [2, 10])
    np.testing.assert_allclose(got["x"], [[0, 0], [10, -10]])
    model = "(float[2,2] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceL2<keepdims = 0>(x, a) }"
    got = gradients(model, {"x": [[0, 0], [3, 4]]}, [2, 10])
    np.testing.assert_allclose(got["x"], [[0, 0], [6, 8]])


def test_equal_extremes_share():
    model = "(float[2,3] x) => (float[2,1] y) <int64[1] a = {1}> { y = ReduceMax(x, a) }"
    got = gradients(model, {"x": [[1, 2, 2], [3, 1, 2]]}, [[4], [3]])
    assert got["x"].tolist() == [[0, 2, 2], [3, 0, 0]]


def test_products_with_zeros():
    """Conformance case H9."""
    model = (
        "(float[3,3] x) => (float[3] y) <int64[1] a = {1}> { y = ReduceProd<keepdims = 0>(x, a) }"
    )
    got = gradients(model, {"x": [[1, 2, 0], [0, 0, 3], [1, 2, 3]]}, [10, 20, 30])
    assert got["x"].tolist() == [[0, 0, 20], [0, 0, 0], [180, 90, 60]]


def test_second_derivatives_of_a_product_with_a_zero():
    judge(f"{ints(a=[1])} y = ReduceProd(h, a)")
    x = np.array([[1, 2, 0], [3, -1, 2]], np.float32)
    judge(f"{ints(a=[1])} g = Add(h, x) y = ReduceProd(g, a)", x=x)


def test_a_mean_of_more_elements_than_half_precision_can_count():
    model = "(float16[N] x) => (float16 y) { y = ReduceMean<keepdims = 0>(x) }"
    got = gradients(model, {"x": np.ones(80_000, np.float16)}, 1000)
    np.testing.assert_allclose(got["x"][:3], 1000 / 80_000, rtol=2e-3)


def test_a_mean_of_nothing():
    model = "(float[N] x) => (float y) { y = ReduceMean<keepdims = 0>(x) }"
    assert gradients(model, {"x": np.ones(0, np.float32)})["x"].shape == (0,)


def test_a_masked_row_of_minus_infinity():
    model = """(float[2,2] x, bool[2] c) => (float[2] y) <int64[1] a = {1}, float zero = {0}> {
      l = ReduceLogSumExp<keepdims = 0>(x, a)
      y = Where(c, l, zero)
    }"""
    x = [[0, 0], [-np.inf, -np.inf]]
    got = gradients(model, {"x": x, "c": np.array([True, False])})
    np.testing.assert_allclose(got["x"], [[0.5, 0.5], [0, 0]])


@pytest.mark.parametrize("kind", ["float[2,0,3]", "float[A,B,C]"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_reductions_of_nothing(operator, kind):
    """Cotangents of what nothing was reduced to have gradients of 0."""
    model = f"({kind} x) => (float[M,N] y) {{ {ints(a=[1])} y = {operator}<keepdims = 0>(x, a) }}"
    second = vjp(vjp(parse(model), of="y", wrt="x"), of="x_grad", wrt="y_grad")
    nothing = np.zeros((2, 0, 3), np.float32)
    got = compile(second)(x=nothing, y_grad=np.ones((2, 3), np.float32), x_grad_grad=nothing)
    assert got["x_grad"].shape == (2, 0, 3)
    np.testing.assert_array_equal(got[names(second)["y_grad"]], np.zeros((2, 3)))


@pytest.mark.parametrize("call", ["ReduceMean<keepdims=0>(x)", "Mean(a, b, c)"])
@pytest.mark.parametrize("dims", ["[3]", "[N]"])
def test_means_divide(call, dims):
    """A third is no number of FLOAT, and what it leaves off shows where terms cancel."""
    text = f"(float{dims} x, float a, float b, float c) => (float y) {{ y = {call} }}"
    wrt = "x" if "x" in call else "a"
    run = compile(vjp(parse(text), of=["y"], wrt=[wrt]))
    feeds = {"x": np.zeros(3, np.float32)} | dict.fromkeys("abc", np.float32(0))
    for dy in np.random.default_rng(0).normal(size=64).astype(np.float32):
        got = run(feeds, y_grad=dy)[f"{wrt}_grad"]
        assert (got == dy / np.float32(3)).all()

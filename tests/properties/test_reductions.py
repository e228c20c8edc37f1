"""Operators along axes: reductions, sums step by step, softmax, norms."""

from hypothesis import strategies as st
from tests.properties.drawn import axes, axis, examples, factors, ints, judge, numbers, shape

REDUCTIONS = (
    "ReduceSum ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceMax ReduceMin ReduceProd"
).split()


def elements(draw, operator, dims):
    """Draw what can be reduced."""
    if operator == "ReduceProd":
        return factors(draw, dims)
    return numbers(draw, dims, positive=operator == "ReduceLogSum")


@examples(24)
def test_reductions(draw):
    operator = draw(st.sampled_from(REDUCTIONS))
    x = elements(draw, operator, shape(draw))
    given = {"axes": ints(axes(draw, x.ndim))} if draw(st.booleans()) else {}
    keep, noop = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    attributes = f"keepdims = {keep}, noop_with_empty_axes = {noop}"
    call = f"{operator}<{attributes}>(x{''.join(f', {name}' for name in given)})"
    judge(draw, call, x=x, **given)


@examples(6)
def test_reductions_whose_axes_are_an_attribute(draw):
    operator = draw(st.sampled_from(REDUCTIONS))
    opset = draw(st.sampled_from((7, 11, 12)))
    x = elements(draw, operator, shape(draw, 1))
    chosen = axes(draw, x.ndim, least=1)
    if opset < 11:
        chosen = [each % x.ndim for each in chosen]
    keep = draw(st.integers(0, 1))
    judge(draw, f"{operator}<axes = {chosen}, keepdims = {keep}>(x)", opset=opset, x=x)


@examples(10)
def test_softmax(draw):
    x = numbers(draw, shape(draw, 1))
    operator = draw(st.sampled_from(("Softmax", "LogSoftmax")))
    judge(draw, f"{operator}<axis = {axis(draw, x.ndim)}>(x)", x=x)


@examples(6)
def test_softmax_over_all_axes_from_one_on(draw):
    x = numbers(draw, shape(draw, 1))
    operator = draw(st.sampled_from(("Softmax", "LogSoftmax")))
    opset = draw(st.sampled_from((7, 11, 12)))
    start = axis(draw, x.ndim) if opset > 10 else draw(st.integers(0, x.ndim - 1))
    judge(draw, f"{operator}<axis = {start}>(x)", opset=opset, x=x)


@examples(8)
def test_sums_step_by_step(draw):
    x = numbers(draw, shape(draw, 1))
    exclusive, reverse = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    along = ints(axis(draw, x.ndim)).astype(draw(st.sampled_from(("int32", "int64"))))
    call = f"CumSum<exclusive = {exclusive}, reverse = {reverse}>(x, along)"
    judge(draw, call, x=x, along=along)


@examples(5)
def test_products_step_by_step(draw):
    x = factors(draw, shape(draw, 1, most=16))
    exclusive, reverse = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    along = ints(axis(draw, x.ndim))
    call = f"CumProd<exclusive = {exclusive}, reverse = {reverse}>(x, along)"
    judge(draw, call, opset=26, x=x, along=along)


@examples(6)
def test_lp_normalization(draw):
    x = numbers(draw, shape(draw, 1))
    p = draw(st.integers(1, 2))
    judge(draw, f"LpNormalization<p = {p}, axis = {axis(draw, x.ndim)}>(x)", x=x)


@examples(8)
def test_largest_elements(draw):
    x = numbers(draw, shape(draw, 1))
    along = axis(draw, x.ndim)
    k = ints([draw(st.integers(0, x.shape[along]))])
    largest, ordered = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    call = f"TopK<axis = {along}, largest = {largest}, sorted = {ordered}>(x, k)"
    judge(draw, call, outputs=("y", "i"), x=x, k=k)

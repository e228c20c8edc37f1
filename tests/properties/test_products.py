"""Products of matrices, sums over letters, determinants and losses."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import examples, judge, numbers, part_of, shape, whole

SIZE = st.integers(0, 3)


@examples(12)
def test_matmul(draw):
    stack = shape(draw, 0, 3, most=8)
    rows, inner, columns = draw(SIZE), draw(SIZE), draw(SIZE)
    a = (*part_of(draw, stack), rows, inner) if draw(st.integers(0, 4)) else (inner,)
    b = (*part_of(draw, stack), inner, columns) if draw(st.integers(0, 4)) else (inner,)
    judge(draw, "MatMul(a, b)", a=numbers(draw, a), b=numbers(draw, b, 1))


@examples(12)
def test_gemm(draw):
    rows, inner, columns = draw(SIZE), draw(SIZE), draw(SIZE)
    flip_a, flip_b = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    given = {
        "a": numbers(draw, (inner, rows) if flip_a else (rows, inner)),
        "b": numbers(draw, (columns, inner) if flip_b else (inner, columns), 1),
    }
    if draw(st.booleans()):
        given["c"] = numbers(draw, part_of(draw, (rows, columns)), 2)
    alpha, beta = (draw(st.sampled_from((1.0, 0.5, -2.0))) for _ in range(2))
    attributes = f"transA = {flip_a}, transB = {flip_b}, alpha = {alpha}, beta = {beta}"
    judge(draw, f"Gemm<{attributes}>({', '.join(given)})", **given)


@examples(12)
def test_einsum(draw):
    letters = draw(st.permutations("ijkl"))
    sizes = {letter: draw(st.integers(1, 3)) for letter in letters}
    count = draw(st.integers(1, 3))
    dots = shape(draw, 0, 2, smallest=1, most=4) if draw(st.booleans()) else None
    terms, given = [], {}
    for which, name in enumerate("abc"[:count]):
        term = "".join(draw(st.lists(st.sampled_from(letters[:3]), max_size=3)))
        dims = tuple(sizes[letter] for letter in term)
        if dots is not None and draw(st.booleans()):
            place = draw(st.integers(0, len(term)))
            term, dims = f"{term[:place]}...{term[place:]}", (*dims[:place], *dots, *dims[place:])
        terms.append(term)
        given[name] = numbers(draw, dims, which)
    known = [letter for letter in letters if any(letter in term for term in terms)]
    right = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    right = "".join(right)
    if any("..." in term for term in terms):
        right = f"...{right}" if draw(st.booleans()) else f"{right}..."
    equation = ",".join(terms) + (f"->{right}" if draw(st.integers(0, 3)) else "")
    judge(draw, f'Einsum<equation = "{equation}">({", ".join(given)})', **given)


@examples(4)
def test_det(draw):
    n = draw(st.integers(1, 3))
    x = numbers(draw, (*shape(draw, 0, 2, most=4), n, n))
    judge(draw, "Det(x)", x=x)


@examples(8)
def test_losses(draw):
    classes = draw(st.integers(1, 3))
    places = (draw(st.integers(1, 3)), *shape(draw, 0, 2, most=4, smallest=1))
    operator = draw(st.sampled_from(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")))
    how = draw(st.sampled_from(("none", "sum", "mean")))
    attributes = f'reduction = "{how}"'
    ignored = draw(st.booleans())
    if ignored:
        attributes += ", ignore_index = -1"
    labels = whole(draw, places, -1 if ignored else 0, classes - 1, "int64")
    given = {"x": numbers(draw, (places[0], classes, *places[1:])), "t": labels}
    if draw(st.booleans()) and (how != "mean" or len(set(labels[labels >= 0])) > 1):
        # The mean does not depend on the weight of one class alone.
        given["w"] = numbers(draw, (classes,), 1, positive=True)
    if how == "mean" and np.all(labels == -1):
        labels[(0,) * labels.ndim] = 0  # the mean of nothing is no number
    outputs = ["y"]
    if operator.startswith("Softmax"):
        outputs = ["y", "p"][: draw(st.integers(1, 2))]
    of = draw(st.sampled_from([outputs, outputs[:1]]))
    judge(draw, f"{operator}<{attributes}>({', '.join(given)})", outputs=outputs, of=of, **given)

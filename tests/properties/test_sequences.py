"""Operators that take tensors apart, and put them together again, along any axis."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import axis, examples, ints, judge, numbers, shape


@examples(10)
def test_split_and_join(draw):
    x = numbers(draw, shape(draw, 1, 4, smallest=1))
    along, size = axis(draw, x.ndim), x.shape
    way = draw(st.sampled_from(("ones", "equal", "sizes")))
    # Of given sizes every part keeps its axis; ONNX Runtime 1.32 leaves that out for size 1.
    keep = draw(st.integers(0, 1)) if way == "ones" else 1
    given = {"x": x}
    if way == "equal":
        given["n"] = np.array(draw(st.integers(1, size[along])), np.int64)
    elif way == "sizes":
        cut = draw(st.integers(0, size[along]))
        given["n"] = ints([cut, size[along] - cut])
    position = draw(st.integers(-1, 0))
    call = (
        f"SplitToSequence<axis = {along}, keepdims = {keep}>({', '.join(given)}) "
        f"p = Constant<value_int = {position}>() t = SequenceAt(s, p) "
        f"u = SequenceInsert(s, t, p) v = SequenceErase(u) "
        f"y = ConcatFromSequence<axis = {along}, new_axis = {1 - keep}>(v)"
    )
    judge(draw, call, outputs=("s",), **given)


@examples(6)
def test_construct_and_stack(draw):
    dims = shape(draw, 0, 3)
    given = {
        name: numbers(draw, dims, k) for k, name in enumerate("abc"[: draw(st.integers(1, 3))])
    }
    along = axis(draw, len(dims) + 1)
    call = (
        f"SequenceConstruct({', '.join(given)}) "
        f"y = ConcatFromSequence<axis = {along}, new_axis = 1>(s)"
    )
    judge(draw, call, outputs=("s",), **given)


@examples(4)
def test_map(draw):
    x = numbers(draw, shape(draw, 1, 3, smallest=1))
    along = axis(draw, x.ndim)
    call = (
        f"SplitToSequence<axis = {along}>(x) m = SequenceMap(s, w) "
        "<body = b (float[] r, float[] f) => (float[] p) { q = Mul(r, f) p = Sin(q) }> "
        f"y = ConcatFromSequence<axis = {along}>(m)"
    )
    judge(draw, call, outputs=("s",), x=x, w=numbers(draw, (), 1))

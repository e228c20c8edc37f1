"""Operators that round, as if they did not: scales for all, rows or blocks, and calculations."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import (
    WAYS,
    axis,
    examples,
    flags,
    judge,
    numbers,
    part_of,
    shape,
)
from tests.properties.test_windows import Window

# Of numbers up to 2 none leaves the range.
STEP = 1 / 32
# How the inputs `a` and `b` become whole numbers, and what becomes of one with the name `r`.
GIVEN = """Constant<value = float {0.03125}>() za = Constant<value = uint8 {120}>()
  sb = Constant<value = float {0.046875}>() zb = Constant<value = uint8 {130}>()
  sy = Constant<value = float {0.25}>() zy = Constant<value = uint8 {110}>()
  qa = QuantizeLinear(a, sa, za) qb = QuantizeLinear(b, sb, zb)
"""
BACK = "d = DequantizeLinear(r, sy, zy) y = Sin(d)"
# The same for operators that only read `a`.
SCALED = """
  d = DequantizeLinear(r, sy, zy) e = DequantizeLinear(qb, sb, zb)
  f = ReduceSum<keepdims = 0>(e) y = Mul(d, f)
"""


def scales(draw, x):
    """Draw scales and the attributes that say what they are for."""
    way = draw(st.sampled_from(("all", "rows", "blocks")))
    if way == "all":
        return (), ""
    along = axis(draw, x.ndim)
    size = x.shape[along]
    if way == "rows":
        return (size,), f"axis = {along}"
    block = draw(st.integers(1, size))
    dims = list(x.shape)
    dims[along] = -(-size // block)
    return tuple(dims), f"axis = {along}, block_size = {block}"


@examples(3)
def test_there_and_back(draw):
    x = numbers(draw, shape(draw, 1, 4, smallest=1, most=16))
    dims, attributes = scales(draw, x)
    s, t = (STEP + np.abs(numbers(draw, dims, which)) / 64 for which in range(2))
    both = ", ".join(filter(None, (attributes, "output_dtype = 3")))
    call = f"QuantizeLinear<{both}>(x, s) d = DequantizeLinear<{attributes}>(q, t) y = Sin(d)"
    call = call.replace("<>", "")
    judge(draw, call, outputs=("q",), quantized=True, declared=WAYS[:2], x=x, s=s, t=t)


@examples(2)
def test_dynamic(draw):
    x = numbers(draw, shape(draw, 0, 4, smallest=1, most=16))
    call = "DynamicQuantizeLinear(x) d = DequantizeLinear(q, s, z) y = Mul(d, d)"
    judge(draw, call, outputs=("q", "s", "z"), quantized=True, x=x)


def judge_pair(draw, nodes, a, b, **options):
    """Judge what some nodes make of `a` and `b` as whole numbers."""
    judge(draw, f"{GIVEN} {nodes}", outputs=("sa",), quantized=True, a=a, b=b, **options)


@examples(2)
def test_products(draw):
    stack = shape(draw, 0, 2, smallest=1, most=4)
    rows, inner, columns = (draw(st.integers(1, 3)) for _ in range(3))
    a = numbers(draw, (*part_of(draw, stack), rows, inner)) / 4
    b = numbers(draw, (*part_of(draw, stack), inner, columns), 1) / 4
    nodes = draw(
        st.sampled_from(
            (
                "p = MatMulInteger(qa, qb, za, zb) c = Cast<to = 1>(p) e = Mul(c, sa) "
                "f = Mul(e, sb) y = Sin(f)",
                f"r = QLinearMatMul(qa, sa, za, qb, sb, zb, sy, zy) {BACK}",
            )
        )
    )
    judge_pair(draw, nodes, a, b)


@examples(2)
def test_gemm(draw):
    rows, inner, columns = (draw(st.integers(1, 3)) for _ in range(3))
    flip_a, flip_b = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    a = numbers(draw, (inner, rows) if flip_a else (rows, inner)) / 4
    b = numbers(draw, (columns, inner) if flip_b else (inner, columns), 1) / 4
    attributes = f"transA = {flip_a}, transB = {flip_b}, alpha = 0.5"
    nodes = f"r = com.microsoft.QGemm<{attributes}>(qa, sa, za, qb, sb, zb, , sy, zy) {BACK}"
    judge_pair(draw, nodes, a, b, declared=WAYS[:2])


@examples(2)
def test_convolutions(draw):
    window = Window(draw, most_axes=2)
    window.pad()
    channels, kernels = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    a = numbers(draw, (1, channels, *window.sizes)) / 4
    b = numbers(draw, (kernels, channels, *window.kernel), 1) / 4
    attributes = window.written(kernel_shape=window.kernel)
    nodes = draw(
        st.sampled_from(
            (
                f"p = ConvInteger{attributes}(qa, qb, za, zb) c = Cast<to = 1>(p) e = Mul(c, sa) "
                "f = Mul(e, sb) y = Sin(f)",
                f"r = QLinearConv{attributes}(qa, sa, za, qb, sb, zb, sy, zy) {BACK}",
            )
        )
    )
    judge_pair(draw, nodes, a, b, declared=WAYS[:2])


@examples(2)
def test_operators_of_onnx_runtime_that_broadcast(draw):
    whole = shape(draw, 1, 3, smallest=1, most=12)
    a, b = (numbers(draw, part_of(draw, whole), which) for which in range(2))
    operator = draw(st.sampled_from(("QLinearAdd", "QLinearMul", "QLinearWhere")))
    more, condition = {}, ""
    if operator == "QLinearWhere":
        more, condition = {"c": flags(draw, part_of(draw, whole))}, "c, "
    nodes = f"r = com.microsoft.{operator}({condition}qa, sa, za, qb, sb, zb, sy, zy) {BACK}"
    judge_pair(draw, nodes, a, b, **more)


@examples(2)
def test_operators_of_onnx_runtime_along_an_axis(draw):
    dims = list(shape(draw, 1, 3, smallest=1, most=12))
    along = draw(st.integers(0, len(dims) - 1))
    a = numbers(draw, tuple(dims))
    call, back = f"QLinearSoftmax<axis = {along}, opset = 13>(qa, sa, za, sy, zy)", SCALED
    if draw(st.booleans()):
        dims[along] = draw(st.integers(1, 3))
        call, back = f"QLinearConcat<axis = {along}>(sy, zy, qa, sa, za, qb, sb, zb)", BACK
    judge_pair(draw, f"r = com.microsoft.{call} {back}", a, numbers(draw, tuple(dims), 1))


@examples(2)
def test_windows_of_onnx_runtime(draw):
    window = Window(draw, dilated=False, most_axes=2)
    window.pad(same=False)
    window.attributes.pop("dilations", None)
    a, b = numbers(draw, (1, draw(st.integers(1, 2)), *window.sizes)), numbers(draw, (), 1)
    attributes = window.written(kernel_shape=window.kernel)
    call = draw(st.sampled_from((f"QLinearAveragePool{attributes}", "QLinearGlobalAveragePool")))
    nodes = f"r = com.microsoft.{call}(qa, sa, za, sy, zy) {SCALED}"
    judge_pair(draw, nodes, a, b, declared=WAYS[:2])

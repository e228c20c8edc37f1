"""Operators that work element by element, on operands of any shapes that can be broadcast."""

import numpy as np
from hypothesis import strategies as st
from tests.properties.drawn import examples, flags, ints, judge, numbers, part_of, shape

UNARY = (
    "Neg Abs Sqrt Exp Log Reciprocal Sigmoid Tanh Relu LeakyRelu Elu Selu Celu Softplus Softsign "
    "HardSigmoid HardSwish ThresholdedRelu Shrink Erf Gelu Mish Sin Cos Tan Sinh Cosh Asinh Atan "
    "Identity Swish<alpha=0.5> BitCast<to=1> Cast<to=1> Acos Asin Atanh Acosh"
).split()
# What is given to those that are not defined for all numbers between -2 and 2.
INSIDE = {"Acos": 0.25, "Asin": 0.25, "Atanh": 0.25, "Acosh": 8}
OPSETS = {"Swish": 24, "BitCast": 26, "SwiGLU": 28}
POSITIVE = ("Sqrt", "Log", "Acosh", "Pow", "Mod<fmod = 1>")


def operands(draw, count, **options):
    """Draw numbers whose shapes are parts of one, and can be broadcast together."""
    whole = shape(draw)
    return [numbers(draw, part_of(draw, whole), which, **options) for which in range(count)]


@examples(8)
def test_one_operand(draw):
    operator = draw(st.sampled_from(UNARY))
    a = numbers(draw, shape(draw), positive=operator in POSITIVE)
    a *= np.float32(INSIDE.get(operator, 1))
    judge(draw, f"{operator}(a)", opset=OPSETS.get(operator.split("<")[0], 21), a=a)


@examples(16)
def test_two_operands(draw):
    operator = draw(
        st.sampled_from(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod<fmod = 1>"))
    )
    a, b = operands(draw, 2, positive=operator in POSITIVE)
    judge(draw, f"{operator}(a, b)", a=a, b=b, kinks="Mod" in operator)


@examples(4)
def test_operands_of_one_shape(draw):
    call = draw(st.sampled_from(("SwiGLU<alpha = 0.5>(a, b)", "CastLike(a, b)")))
    dims = shape(draw)
    a, b = (numbers(draw, dims, which) for which in range(2))
    judge(draw, call, opset=OPSETS.get(call[:6], 21), fixed=["b"] * ("Like" in call), a=a, b=b)


@examples(3)
def test_one_operand_twice(draw):
    operator = draw(st.sampled_from(("Add", "Sub", "Mul", "Div", "Pow")))
    judge(draw, f"{operator}(a, a)", a=numbers(draw, shape(draw), positive=True))


@examples(8)
def test_many_operands(draw):
    operator = draw(st.sampled_from(("Sum", "Mean", "Max", "Min")))
    values = dict(zip("abcd", operands(draw, draw(st.integers(1, 4))), strict=False))
    judge(draw, f"{operator}({', '.join(values)})", **values)


@examples(6)
def test_where(draw):
    a, b = operands(draw, 2)
    chosen = flags(draw, part_of(draw, max(a.shape, b.shape, key=len)))
    judge(draw, "Where(c, a, b)", c=chosen, a=a, b=b)


@examples(6)
def test_clip(draw):
    limits = {n: numbers(draw, (), k) for k, n in enumerate("lh", 1) if draw(st.booleans())}
    call = f"Clip(x, {'l' if 'l' in limits else ''}, {'h' if 'h' in limits else ''})"
    call = call.replace(", , )", ")").replace(", )", ")")
    judge(draw, call, x=numbers(draw, shape(draw)), **limits)


@examples(4)
def test_slopes_of_prelu(draw):
    x = numbers(draw, shape(draw))
    judge(draw, "PRelu(x, s)", x=x, s=numbers(draw, part_of(draw, x.shape), 1))


@examples(6)
def test_expand(draw):
    whole = shape(draw)
    x = numbers(draw, part_of(draw, whole))
    judge(draw, "Expand(x, s)", x=x, s=ints(part_of(draw, whole)))

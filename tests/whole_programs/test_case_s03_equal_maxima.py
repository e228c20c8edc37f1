"""Conformance case S3: operands of Max and Min that are equal share the gradient."""

import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

TWO = "(float[N] a, float[N] b) => (float[N] y) { y = %s(a, b) }"


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_halves(op):
    f = pullback(TWO % op, "y", "a b")
    assert_numbers(f(a=[1], b=[1], y_grad=[1]), a_grad=[0.5], b_grad=[0.5])
    outputs = f(a=[1, 2, 3], b=[1, 3, 2], y_grad=[2, 10, 100])
    larger, smaller = ("a_grad", "b_grad") if op == "Max" else ("b_grad", "a_grad")
    assert_numbers(outputs, **{larger: [1, 0, 100], smaller: [1, 10, 0]})


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_one_operand_several_times(op, count):
    f = pullback(f"(float[N] a) => (float[N] y) {{ y = {op}({', '.join('a' * count)}) }}", "y", "a")
    assert_numbers(f(a=[1, -2], y_grad=[1, 1]), y=[1, -2], a_grad=[1, 1])
    assert_numbers(f(a=[1, -2], y_grad=[0.5, -3]), a_grad=[0.5, -3])


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_parts_sum_to_the_seed(op):
    model = f"(float[N] a, float[N] b, float[N] c) => (float[N] y) {{ y = {op}(a, b, c) }}"
    f = pullback(model, "y", "a b c")
    a, b, c = [1, 1, 1, 2, 5], [1, 2, 1, 2, 6], [1, 2, 0, 0, 7]
    outputs = f(a=a, b=b, c=c, y_grad=[1, 10, -100, 0.5, 3])
    total = sum(outputs[f"{name}_grad"] for name in "abc")
    assert total.tolist() == [1, 10, -100, 0.5, 3]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_broadcasting(op):
    model = f"""(float[2,3] a, float[3] b, float c) => (float[2,3] y) {{ y = {op}(a, b, c) }}"""
    assert_gradient(model, ["y"], ["a", "b", "c"], {"c": 0.1})


def test_running_maximum():
    """In a scan every new maximum takes the gradient over; equal ones share it."""
    model = """(float[T] x) => (float[T] y) {
      least = Constant<value = float {-10}>()
      last, y = Scan(least, x) <num_scan_inputs = 1,
        body = body (float m, float r) => (float k, float out) { k = Max(m, r) out = Identity(k) }>
    }"""
    f = pullback(model, "y", "x")
    outputs = f(x=[1, 0.5, 2, 1.5], y_grad=[1, 10, 100, 1000])
    assert_numbers(outputs, y=[1, 1, 2, 2], x_grad=[11, 0, 1100, 0])
    outputs = f(x=[1, 1, 0, 0], y_grad=[1, 10, 100, 1000])
    assert_numbers(outputs, y=[1, 1, 1, 1], x_grad=[1 + 555, 555, 0, 0])

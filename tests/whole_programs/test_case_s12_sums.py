"""Conformance case S12: Sum, and its relatives, of one operand and of three of other shapes."""

import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_one_operand(op):
    f = pullback(f"(float[N] x) => (float[N] y) {{ y = {op}(x) }}", "y", "x")
    assert_numbers(f(x=[1, 2], y_grad=[1, 1]), y=[1, 2], x_grad=[1, 1])
    assert_numbers(f(x=[1, 2], y_grad=[0.5, -3]), x_grad=[0.5, -3])


def test_three_operands_that_are_broadcast():
    model = """(float[2,3] a, float[3] b, float[2,1] c) => (float[2,3] y) { y = Sum(a, b, c) }"""
    f = pullback(model, "y", "a b c")
    at = {"a": [[1, 2, 3], [4, 5, 6]], "b": [10, 20, 30], "c": [[100], [200]]}
    y = [[111, 122, 133], [214, 225, 236]]
    outputs = f(at, y_grad=[[1, 1, 1], [1, 1, 1]])
    assert_numbers(outputs, y=y, a_grad=[[1] * 3] * 2, b_grad=[2, 2, 2], c_grad=[[3], [3]])
    seed = [[1, 2, 4], [8, 16, 32]]
    outputs = f(at, y_grad=seed)
    assert_numbers(outputs, a_grad=seed, b_grad=[9, 18, 36], c_grad=[[7], [56]])


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("shapes", [
    ("2,3", "3", "2,1"), ("N,D", "D", "N,1"), ("A", "B,C", "D,E"), ("1", "2,1,2", "N,M"),
])  # fmt: skip
def test_shapes(op, shapes):
    rank = 3 if "2,1,2" in shapes else 2
    result = ",".join(f"R{axis}" for axis in range(rank))
    inputs = ", ".join(f"float[{s}] {n}" for s, n in zip(shapes, "abc", strict=True))
    model = f"({inputs}) => (float[{result}] y) {{ y = {op}(a, b, c) }}"
    given = {
        "A": {"a": [0.5, 1, -1], "b": [[0.25, -2, 0.75]], "c": [[1.5], [-0.5]]},
        "1": {"c": [[0.5, -0.25]]},
    }.get(shapes[0], {})
    assert_gradient(model, ["y"], ["a", "b", "c"], given)


@pytest.mark.parametrize("op", ["Sum", "Mean"])
def test_one_operand_three_times(op):
    model = f"(float[N] x, float w) => (float[N] y) {{ a = Mul(x, w) y = {op}(a, x, a, a) }}"
    assert_gradient(model, ["y"], ["x", "w"], second_order=True)

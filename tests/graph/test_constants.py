import pytest
from tests.judge import parse

from whileback.graph.constants import known_floats, known_ints


@pytest.mark.parametrize(
    ("signature", "body", "known"),
    [
        ("(float[2] x)", "s = Constant<value_ints = [1, -2]>() y = Reshape(x, s)", [1, -2]),
        ("(float[2] x)", "s = Constant<value_int = 3>() y = Reshape(x, s)", [3]),
        ("(float[2] x, int64[1] s)", "y = Reshape(x, s)", None),
        ("(float[2] x, int64[1] s = {2})", "y = Reshape(x, s)", None),
        ("(float[2] x)", "s = Shape(x) y = Reshape(x, s)", None),
    ],
)
def test_known_ints(signature, body, known):
    graph = parse(f"{signature} => (float[N] y) {{ {body} }}").graph
    assert known_ints(graph[-1].inputs[1]) == known


def test_an_initializer_that_is_no_input_is_known():
    graph = parse("(float[2] x) => (float[N] y) <int64[1] s = {2}> { y = Reshape(x, s) }").graph
    assert known_ints(graph[-1].inputs[1]) == [2]


def test_an_input_that_is_left_out():
    assert known_ints(None) is None


def test_known_floats():
    graph = parse("(float[2] x) => (float[2] y) <float s = {0.5}> { y = Mul(x, s) }").graph
    assert known_floats(graph[0].inputs[1]) == [0.5]
    assert known_floats(graph[0].inputs[0]) is None

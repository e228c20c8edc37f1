"""What cannot run on the shapes that come is no harm where it does not run."""

import numpy as np
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import EngineError

# Each makes b of the vector a, and cannot do so if that has no elements.
PARTS = {
    "Gather": "b = Gather(a, one)",
    "GatherElements": "b = GatherElements(a, one)",
    "GatherND": "at = Unsqueeze(k, zero) b = GatherND(a, at)",
    "ScatterElements": "b = ScatterElements(a, k, two)",
    "ScatterND": "at = Unsqueeze(k, zero) b = ScatterND(a, at, two)",
    "TensorScatter": """row = Unsqueeze(a, zero) more = Unsqueeze(two, zero)
        r = TensorScatter<axis = -1>(row, more, k) b = Squeeze(r, zero)""",
    "ArgMax": "at = ArgMax<axis = 0>(a) b = Cast<to = 1>(at)",
    "TopK": "b, at = TopK(a, one)",
    "Reshape": "shape = Constant<value_ints = [2, 2]>() r = Reshape(a, shape) b = ReduceSum(r)",
    "MatMul": "row = Unsqueeze(two, zero) b = MatMul(row, a)",
    "Split": "sizes = Constant<value_ints = [1, 2]>() b, rest = Split(a, sizes)",
}
CONSTANTS = """zero = Constant<value_ints = [0]>()
        one = Constant<value_ints = [1]>()
        two = Constant<value_floats = [2.0]>()"""
LOOP = """(float[N] x, int64 m) => (float[P] y) {{
    {constants}
    y = Loop (m, , x) <body = trip (int64 i, bool c, float[N] a) => (bool d, float[N] e) {{
        d = Identity(c)
        k = Unsqueeze(i, zero)
        {part}
        e = Add(a, b)
    }}>
}}"""
NESTED = """(float[N] x, float[2] z, int64 n, int64 m) => (float[2] y) {{
    {constants}
    y = Loop (n, , z) <body = outer (int64 j, bool g, float[2] u) => (bool h, float[2] v) {{
        h = Identity(g)
        p = Loop (m, , x) <body = trip (int64 i, bool c, float[N] a) => (bool d, float[N] e) {{
            d = Identity(c)
            k = Unsqueeze(i, zero)
            {part}
            e = Add(a, b)
        }}>
        s = ReduceSum<keepdims = 0>(p)
        t = Add(u, s)
        v = Sin(t)
    }}>
}}"""
BRANCH = """(bool p, float[N] a, int64[1] k) => (float[P] y) {{
    {constants}
    y = If (p) <
        then_branch = yes () => (float[P] w) {{ {part} w = Add(a, b) }},
        else_branch = no () => (float[P] o) {{ o = Sin(a) }}
    >
}}"""
BRANCH_IN_LOOP = """(bool p, float[N] x, float[N] f, int64 m) => (float[N] y) {{
    {constants}
    y = Loop (m, , f) <body = trip (int64 i, bool c, float[N] g) => (bool d, float[N] e) {{
        d = Identity(c)
        k = Unsqueeze(i, zero)
        q = If (p) <
            then_branch = yes () => (float[P] w) {{ a = Identity(x) {part} w = Add(a, b) }},
            else_branch = no () => (float[P] o) {{ o = Cos(g) }}
        >
        e = Sin(q)
    }}>
}}"""
NOTHING = np.zeros(0, np.float32)


def both(text, part, **feeds):
    """Return the result of both engines."""
    whole = parse(text.format(constants=CONSTANTS, part=PARTS[part]), 24)
    return [compile(whole, engine)(feeds)["y"] for engine in ("xla", "onnxruntime")]


@pytest.mark.parametrize("part", PARTS)
def test_a_loop_without_trips(part):
    got, want = both(LOOP, part, x=NOTHING, m=0)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("part", PARTS)
def test_a_loop_without_trips_inside_a_loop(part):
    got, want = both(NESTED, part, x=NOTHING, z=np.float32([0.5, -1]), n=3, m=0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("part", PARTS)
def test_a_branch_that_is_not_taken(part):
    got, want = both(BRANCH, part, p=False, a=NOTHING, k=[0])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("part", PARTS)
def test_a_branch_that_is_not_taken_in_any_trip(part):
    got, want = both(BRANCH_IN_LOOP, part, p=False, x=NOTHING, f=NOTHING, m=2)
    np.testing.assert_array_equal(got, want)


def test_where_it_runs_it_is_an_error():
    part = PARTS["Reshape"].replace("r =", "[cut] r =")
    text = BRANCH.format(constants=CONSTANTS, part=part)
    with pytest.raises(EngineError) as error:
        compile(parse(text), "xla")(p=True, a=np.ones(3, np.float32), k=[0])
    assert str(error.value) == (
        "The engine 'xla' cannot run Reshape 'cut' on float32[3], int64[2]: cannot reshape array "
        "of shape (3,) (size 3) into shape [2, 2] (size 4)"
    )

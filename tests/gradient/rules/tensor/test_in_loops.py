"""Rows that a loop reads, writes and rearranges, with the number of the trip as an index."""

import numpy as np
import pytest
from tests.gradient.rules.tensor.squares import ints
from tests.judge import assert_gradient

BODIES = {
    "a row": "x = Gather(X, i)",
    "a row by a list of one": f"""{ints(z=[0])} j = Unsqueeze(i, z) r = Gather(X, j)
      x = Squeeze(r, z)""",
    "a row by a slice": f"""{ints(z=[0], one=[1])} j = Unsqueeze(i, z) k = Add(j, one)
      r = Slice(X, j, k, z) x = Squeeze(r, z)""",
    "a column": "Y = Transpose(X) x = Gather<axis = -1>(Y, i)",
    "one element": f"""{ints(z=[0])} j = Unsqueeze(i, z) k = Concat<axis = 0>(j, z)
      e = GatherND(X, k) row = Gather(X, i) x = Mul(e, row)""",
    "parts of the state": f"""{ints(sizes=[1, 2])} p, q = Split(a, sizes) r = Concat<axis = 0>(q, p)
      row = Gather(X, i) x = Mul(r, row)""",
    "a padded state": f"""{ints(p=[1, 1], one=[1], four=[4])}
      b = Pad<mode = "reflect">(a, p) r = Slice(b, one, four) row = Gather(X, i) x = Mul(r, row)""",
    "an element of the state written": f"""{ints(z=[0], three=[3])} j = Unsqueeze(i, z)
      k = Mod(j, three) old = Gather(a, k) new = Mul(old, old) l = Unsqueeze(k, z)
      b = ScatterND(a, l, new) row = Gather(X, i) x = Mul(b, row)""",
    "where the state is positive": """zero = Constant<value_float = 0.0>() g = Greater(a, zero)
      row = Gather(X, i) x = Where(g, a, row)""",
}


@pytest.mark.parametrize("rows", ["T,3", "M,N"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_loop(body, rows):
    model = f"""(float[{rows}] X, float[3,3] w, float[3] v0, int64 n) => (float[3] v) {{
      proceed = Constant<value = bool {{1}}>()
      v = Loop(n, proceed, v0) <body = trip (int64 i, bool c, float[3] a) => (bool d, float[3] t) {{
        d = Identity(c)
        {body}
        s = Add(a, x)
        m = MatMul(s, w)
        t = Tanh(m)
      }}>
    }}"""
    rng = np.random.default_rng(0)
    inputs = {"X": rng.uniform(0.1, 1, (4, 3)), "w": rng.uniform(-0.5, 0.5, (3, 3))}
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    inputs |= {"v0": np.array([0.5, -1, 2], np.float32), "n": np.array(3)}
    assert_gradient(model, ["v"], ["X", "w", "v0"], inputs, second_order=True)

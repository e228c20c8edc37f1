"""Conformance case H1: one value that is several results of a body or of a branch."""

import pytest
from tests.judge import assert_gradient
from tests.whole_programs.right_answers import assert_numbers, pullback

LOOP = """(int64 n, float[2] x, float[2] w) => (float[2] y, float[T,2] rows) {
  y, rows = Loop(n, , x) <body = body (int64 i, bool c, float[2] v)
      => (bool go, float[2] u, float[2] u) {
    go = Identity(c)
    u = Mul(v, w)
  }>
}"""
IF = """(bool c, float[2] x, float[2] w) => (float[2] y, float[2] z) {
  y, z = If(c) <
    then_branch = t () => (float[2] a, float[2] a) { a = Mul(x, w) },
    else_branch = e () => (float[2] b, float[2] d) { b = Sin(x) d = Add(x, w) }>
}"""


def test_carried_and_stacked():
    """Trips compute v·w: dw of one trip is x·(dy + drow)."""
    f = pullback(LOOP, "y rows", "x w")
    outputs = f(n=1, x=[2, 3], w=[5, 7], y_grad=[1, 1], rows_grad=[[1, 1]])
    assert_numbers(outputs, y=[10, 21], rows=[[10, 21]], x_grad=[10, 14], w_grad=[4, 6])
    outputs = f(n=2, x=[2, 3], w=[5, 7], y_grad=[1, 0], rows_grad=[[10, 0], [100, 1]])
    # rows x·w, x·w²; y = x·w²: dx = 101·w² + 10·w, dw = 101·2xw + 10·x, and w², 2xw for the 1.
    assert_numbers(outputs, x_grad=[2575, 49], w_grad=[2040, 42])


@pytest.mark.parametrize("c", [True, False])
def test_two_outputs_of_a_branch(c):
    f = pullback(IF, "y z", "x w")
    outputs = f(c=c, x=[2, 0], w=[5, 7], y_grad=[1, 10], z_grad=[100, -1])
    if c:
        assert_numbers(outputs, y=[10, 0], z=[10, 0], x_grad=[505, 63], w_grad=[202, 0])
    else:
        assert_numbers(outputs, z=[7, 7], w_grad=[100, -1])


BODIES = {
    "carried twice": ("u", "u", "r", "r2"),
    "carried and stacked": ("u", "t", "u", "t"),
    "stacked twice": ("u", "t", "r", "r"),
    "carried twice and stacked": ("u", "u", "u", "r"),
    "all the same": ("u", "u", "u", "u"),
    "an input handed on": ("a", "u", "r", "a"),
    "inputs swapped": ("b", "a", "b", "a"),
}


@pytest.mark.parametrize("results", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_every_pair(op, results):
    compute = """
      p = Mul(a, w)
      u = Sin(p)
      t = Add(u, b)
      r = Mul(t, u)
      r2 = Mul(r, w)"""
    outputs = ", ".join(f"float[2] {name}" for name in results)
    if op == "Loop":
        call = "Loop(n, , x, w) <body = body (int64 i, bool c, float[2] a, float[2] b)"
        results_text, start = f"(bool go, {outputs})", "go = Identity(c)"
    else:
        # A Scan may not return one value twice, nor an input: ONNX Runtime leaves it unwritten.
        call = (
            "Scan(x, w, s) <num_scan_inputs = 1, body = body (float[2] a, float[2] b, float[2] q)"
        )
        copies = [f"float[2] o{index}" for index in range(4)]
        results_text, start = f"({', '.join(copies)})", ""
        lines = [f"o{index} = Identity({name})" for index, name in enumerate(results)]
        compute += "\n      " + "\n      ".join(lines)
    model = f"""(int64 n, float[3,2] s, float[2] x, float[2] w)
        => (float[2] y, float[2] z, float[T,2] rows, float[T,2] more) {{
      y, z, rows, more = {call} => {results_text} {{
      {start}{compute}
      }}>
    }}"""
    of = ["y", "z", "rows", "more"]
    second_order = results in (BODIES["all the same"], BODIES["inputs swapped"])
    assert_gradient(model, of, ["x", "w"], {"n": 3}, second_order=second_order and op == "Loop")


BRANCHES = """(bool c, float[2] x, float[2] w) => (float[2] y, float[2] z) {
  y, z = If(c) <
    then_branch = t () => (float[2] %(y1)s, float[2] %(z1)s) {
      x1 = Identity(x)
      a = Mul(x1, w)
      b = Sin(a)%(then)s
    },
    else_branch = e () => (float[2] %(y2)s, float[2] %(z2)s) {
      d = Add(x, w)%(other)s
    }>
}"""


def with_copies(names, prefix):
    """Return a branch's results, each by an Identity of its own, and the lines for that."""
    copies = [f"{prefix}{index}" for index in range(2)]
    lines = [f"\n{copy} = Identity({name})" for copy, name in zip(copies, names, strict=True)]
    return copies, "".join(lines)


@pytest.mark.parametrize("then", [("a", "a"), ("a", "b"), ("x1", "x1")])
@pytest.mark.parametrize("c", [True, False])
def test_branches(then, c):
    """ONNX Runtime gets the model itself wrong, so a copy with an Identity for each is judged."""
    form = {"y1": then[0], "z1": then[1], "y2": "d", "z2": "d", "then": "", "other": ""}
    (y1, z1), lines = with_copies(then, "k")
    (y2, z2), others = with_copies(("d", "d"), "l")
    copied = BRANCHES % {"y1": y1, "z1": z1, "y2": y2, "z2": z2, "then": lines, "other": others}
    assert_gradient(copied, ["y", "z"], ["x", "w"], {"c": c}, second_order=True)
    at = {"c": c, "x": [0.5, -2], "w": [3, 0.25], "y_grad": [1, 10], "z_grad": [-100, 0.5]}
    right = pullback(copied, "y z", "x w")(at)
    outputs = pullback(BRANCHES % form, "y z", "x w")(at)
    assert_numbers(outputs, **{name: value.tolist() for name, value in right.items()})


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("n", [0, 3])
def test_branches_inside_a_loop(c, n):
    model = """(int64 n, bool c, float[2] x, float[2] w) => (float[2] s, float[2] q) {
      s, q = Loop(n, , x, w) <body = body (int64 i, bool g, float[2] v, float[2] k)
          => (bool go, float[2] y, float[2] z) {
        go = Identity(g)
        y, z = If(c) <
          then_branch = t () => (float[2] a, float[2] %s) { a = Mul(v, w) %s },
          else_branch = e () => (float[2] b, float[2] d) { b = Sin(v) d = Add(v, k) }>
      }>
    }"""
    copied = model % ("a2", "a2 = Identity(a)")
    inputs = {"n": n, "c": c}
    assert_gradient(copied, ["s", "q"], ["x", "w"], inputs, second_order=n == 3)
    at = {**inputs, "x": [0.5, -2], "w": [3, 0.25], "s_grad": [1, 10], "q_grad": [-100, 0.5]}
    right = pullback(copied, "s q", "x w")(at)
    outputs = pullback(model % ("a", ""), "s q", "x w")(at)
    assert_numbers(outputs, **{name: value.tolist() for name, value in right.items()})

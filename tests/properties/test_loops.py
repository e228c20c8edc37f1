"""Scans along any axis and in either direction, and loops that run any number of times."""

from hypothesis import strategies as st
from tests.properties.drawn import WAYS, examples, flags, judge, numbers, shape, whole


@examples(10)
def test_scan(draw):
    row = shape(draw, 0, 2, smallest=1, most=8)
    length, rank = draw(st.integers(1, 4)), len(row) + 1
    axes = [draw(st.integers(0, rank - 1)) for _ in "ab"]
    stacks = [(*row[:axis], length, *row[axis:]) for axis in axes]
    back = draw(st.sampled_from((0, rank)))
    attributes = (
        f"num_scan_inputs = 2, scan_input_axes = {[axis - back for axis in axes]}, "
        f"scan_input_directions = {[draw(st.integers(0, 1)) for _ in 'ab']}, "
        f"scan_output_axes = [{draw(st.integers(-rank, rank - 1))}], "
        f"scan_output_directions = [{draw(st.integers(0, 1))}]"
    )
    body = "(float[] v, float[] p, float[] q) => (float[] w, float[] o) "
    body += "{ m = Mul(p, v) n = Mul(m, e) w = Tanh(n) o = Mul(w, q) }"
    call = f"Scan<{attributes}, body = b {body}>(s, a, b)"
    given = {"s": numbers(draw, row), "e": numbers(draw, row, 3)}
    given |= {
        name: numbers(draw, dims, k) for k, name, dims in zip((1, 2), "ab", stacks, strict=True)
    }
    letters = "ABC"[: len(row)]
    shown = [f"{letters[:axis]}T{letters[axis:]}" for axis in axes]
    shared = {"s": letters, "e": letters, "a": shown[0], "b": shown[1]}
    of = draw(st.sampled_from((("z", "y"), ("z",), ("y",))))
    judge(draw, call, outputs=("z", "y"), of=of, letters=shared, declared=WAYS[:2], **given)


@examples(6)
def test_loop(draw):
    dims = shape(draw, 0, 3, smallest=1, most=8)
    given = {"x": numbers(draw, dims), "w": numbers(draw, dims, 1)}
    given |= {"n": whole(draw, (), 0, 3), "c": flags(draw, ())}
    body = "(int64 i, bool go, float[] v) => (bool on, float[] u, float[] o) "
    body += "{ on = Identity(go) m = Mul(v, w) u = Sin(m) o = Mul(u, x) }"
    call = f"Loop(n, c, x)<body = b {body}>"
    shared = dict.fromkeys("xw", "ABC"[: len(dims)])
    # Of a stack of nothing ONNX Runtime does not know the shape.
    of = draw(st.sampled_from(("zy", "z", "y"))) if given["n"] and given["c"] else "z"
    judge(draw, call, outputs="zy", of=of, letters=shared, declared=WAYS[:2], **given)


@examples(4)
def test_if(draw):
    dims = shape(draw, 0, 3)
    given = {"c": flags(draw, ()), "a": numbers(draw, dims), "b": numbers(draw, dims, 1)}
    branches = "then_branch = t () => (float[] p) { p = Mul(a, b) }, "
    branches += "else_branch = f () => (float[] q) { q = Sin(b) }"
    judge(draw, f"If(c)<{branches}>", **given)

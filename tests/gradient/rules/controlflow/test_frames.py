"""What a trip keeps, by size and cost; that it is said, and why; and that gradients are right."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback import show
from whileback.engines import compile
from whileback.gradient import vjp
from whileback.gradient.rules.controlflow.costs import keeping, known_bytes, work

LOOP = """(int64 M, float[{size}] x{captured}) => (float[{size}] y) {{
  y = Loop(M, , x) <body = b (int64 i, bool c, float[{size}] v) => (bool go, float[{size}] w) {{
    go = Identity(c)
    {body}
  }}>
}}"""


def loop(body: str, size: str = "4", captured: str = "") -> str:
    return LOOP.format(body=body, size=size, captured=captured)


def kept(text: str, memory: Any = None) -> list[str]:
    """Return what is said of the values that a trip keeps of the outermost loop."""
    lines = show(vjp(parse(text), "y", "x", memory=memory), everything=True).splitlines()
    return [line.removeprefix("    #   ") for line in lines if line.startswith("    #   ")]


def test_a_large_cheap_result_of_a_small_value_is_computed_again() -> None:
    body = "p = Mul(v, r) s = Exp(p) w = ReduceMean(s, axis)"
    text = loop(body, "4,1", ", float[1,2048] r, int64[1] axis")
    assert kept(text) == ["v FLOAT[4,1], 16 B: carried into the trip"]
    assert_gradient(text, ["y"], ["x"], {"M": 3, "axis": [1]}, directions=1, second_order=True)


def test_a_small_result_of_a_dear_product_is_kept() -> None:
    body = "h = MatMul(v, A) s = Sin(h) w = MatMul(s, B)"
    text = loop(body, "1,64", ", float[64,2] A, float[2,64] B")
    assert kept(text) == ["h FLOAT[1,2], 8 B: computing it again would need v FLOAT[1,64]"]
    assert_gradient(text, ["y"], ["x", "A", "B"], {"M": 3}, directions=1, second_order=True)


def test_a_product_is_kept_if_it_is_large_though_what_it_reads_is_there() -> None:
    body = "h = MatMul(v, A) s = Sin(h) t = MatMul(s, B) w = Mul(t, v)"
    text = loop(body, "32,64", ", float[64,64] A, float[64,64] B")
    assert kept(text) == [
        "v FLOAT[32,64], 8.0 KB: carried into the trip",
        "h FLOAT[32,64], 8.0 KB: computing it again would run MatMul",
        "t FLOAT[32,64], 8.0 KB: computing it again would run MatMul",
    ]
    small = loop(body, "1,4", ", float[4,4] A, float[4,4] B")
    assert kept(small) == ["v FLOAT[1,4], 16 B: carried into the trip"]
    assert_gradient(small, ["y"], ["x", "A"], {"M": 3}, directions=1, second_order=True)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("4", ["v FLOAT[4], 16 B: carried into the trip"]),
        ("N", ["v FLOAT[N]: carried into the trip"]),
        (
            "8192",
            [
                "v FLOAT[8192], 32.0 KB: carried into the trip",
                "s FLOAT[8192], 32.0 KB: computing it again would run Sin",
            ],
        ),
    ],
)
def test_the_size_decides_on_the_same_body(size: str, expected: list[str]) -> None:
    text = loop("s = Sin(v) w = Mul(s, s)", size)
    assert kept(text) == expected
    inputs = {"M": 3} if size == "4" else {"M": 3, "x": [0.25] * (8192 if size != "N" else 5)}
    assert_gradient(text, ["y"], ["x"], inputs, directions=1, second_order=True)


def test_values_of_unknown_rank() -> None:
    text = loop("f = Cast<to = 1>(i) t = Mul(v, f) s = Sin(t) w = Mul(s, v)", "4")
    text = text.replace("float[4]", "float[]").replace("float[] x", "float[N] x0, int64[K] k", 1)
    text = text.replace("{\n", "{\n  x = Reshape(x0, k)\n", 1)
    inputs = {"M": 3, "x0": [0.5, -0.25, 1.0, 0.75], "k": [2, 2]}
    text = text.replace("float[] ", "float[A,B] ")
    assert_gradient(text, ["y"], ["x0"], inputs, second_order=True)


def test_what_the_loop_gives_out_is_read_there() -> None:
    text = """(int64 M, float[1,2] x, float[2,2] A) => (float[1,2] y, float[T,1,2] all) {
      y, all = Loop(M, , x)
        <body = b (int64 i, bool c, float[1,2] v) => (bool go, float[1,2] w, float[1,2] s) {
        go = Identity(c)
        h = MatMul(v, A)
        s = Sigmoid(h)
        w = MatMul(s, A)
      }>
    }"""
    assert kept(text) == ["s FLOAT[1,2], 8 B: the loop gives it out anyway"]
    assert_gradient(text, ["y"], ["x"], {"M": 3}, second_order=True)


def test_what_is_computed_again_may_read_the_next_row() -> None:
    """The state after the trip is the one before the next; nothing else is kept for exp(u)."""
    body = "h = MatMul(v, A) w = Tanh(h) s = Exp(w)"
    text = loop(body, "1,4", ", float[4,4] A").replace("(float[1,4] y)", "(float[1,4] y, z)")
    text = text.replace("(float[1,4] y, z)", "(float[1,4] y, float[T,1,4] z)")
    text = text.replace("y = Loop", "y, z = Loop").replace("float[1,4] w)", "float[1,4] w, p)")
    text = text.replace("float[1,4] w, p)", "float[1,4] w, float[1,4] p)")
    text = text.replace("s = Exp(w)", "s = Exp(w) p = Sin(s)")
    model = vjp(parse(text), ["y", "z"], ["x", "A"])
    (forward,) = (node for node in model.graph if node.op_type == "Loop")
    assert [value.name for value in forward.outputs] == ["y", "z", "v/tape"]
    assert_gradient(text, ["y", "z"], ["x", "A"], {"M": 3}, second_order=True)


CHOOSE = """s = Sin(v) z = ReduceSum<keepdims = 0>(s) zero = Constant<value_float = 0.0>()
    p = Greater(z, zero)
    w = If(p) <
      then_branch = t () => (float[4] a) { a = Sin(v) },
      else_branch = e () => (float[4] q) { q = Mul(v, v) }>"""
SEARCH = """s = Sin(v) z = ReduceSum<keepdims = 0>(s) limit = Constant<value_int = 3>()
    w = Loop(limit, , s) <body = d (int64 j, bool e, float[4] p) => (bool on, float[4] q) {
      q = Mul(p, p)
      n = ReduceSum<keepdims = 0>(q)
      least = Constant<value_float = 0.1>()
      on = Greater(n, least)
    }>"""
DECIDES = "decides something, and may come out otherwise when computed again"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CHOOSE, ["v FLOAT[4], 16 B: carried into the trip", f"p BOOL[], 1 B: {DECIDES}"]),
        (SEARCH, ["v FLOAT[4], 16 B: carried into the trip", f"s FLOAT[4], 16 B: {DECIDES}"]),
    ],
)
def test_decisions_are_not_made_again(body: str, expected: list[str]) -> None:
    """A sine of all trips is rounded otherwise than that of one."""
    assert kept(loop(body)) == expected
    assert_gradient(loop(body), ["y"], ["x"], {"M": 4, "x": [0.5, 0.9, -0.4, 0.7]})


def test_exact_decisions_are_made_again() -> None:
    body = "zero = Constant<value_float = 0.0>() p = Less(v, zero) s = Sin(v) w = Where(p, s, v)"
    assert kept(loop(body)) == ["v FLOAT[4], 16 B: carried into the trip"]
    assert_gradient(loop(body), ["y"], ["x"], {"M": 4}, second_order=True)


@pytest.mark.parametrize("memory", ["keep", "recompute"])
def test_draws_are_kept_in_any_case(memory: str) -> None:
    text = """(int64 M, float[2] x) => (float[2] y, float[K,2] draws) {
      y, draws = Loop(M, , x)
        <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w, float[2] n) {
        go = Identity(c)
        r = RandomNormal<shape = [2]>()
        w = Mul(v, r)
        n = Neg(r)
      }>
    }"""
    assert kept(text, memory) == ["r FLOAT[2], 8 B: drawn at random"]
    got = compile(vjp(parse(text), ["y"], ["x"], memory=memory))(M=3, x=[1, 2], y_grad=[1, 10])
    assert got["x_grad"] == pytest.approx((-got["draws"]).prod(axis=0) * [1, 10])


def test_dropout_is_computed_again_from_its_mask() -> None:
    body = """ratio = Constant<value_float = 0.5>() on = Constant<value = bool {1}>()
    e = Mul(v, v) d = Dropout(e, ratio, on) w = Sin(d)"""
    assert kept(loop(body)) == [
        "v FLOAT[4], 16 B: carried into the trip",
        "d_1 BOOL[4], 4 B: drawn at random",
    ]


def test_strings_have_no_size() -> None:
    """Neither what a loop computes in all, nor what anything costs, asks for it."""
    text = """(float[2] x, string[2] s) => (float[2] y) {
      M = Constant<value_int = 3>()
      y = Loop(M, , x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] w) {
        go = Identity(c)
        e = StringNormalizer<is_case_sensitive = 1>(s)
        same = Equal(e, s)
        f = Cast<to = 1>(same)
        p = Mul(v, f)
        w = Sin(p)
      }>
    }"""
    lines = show(vjp(parse(text), "y", "x"), everything=True).splitlines()
    assert (
        "    # keep: the sizes in its body are known only when it runs; a trip keeps 8 B:" in lines
    )


def test_all_that_is_kept_is_said() -> None:
    body = """r = RandomNormal<shape = [1, 256]>()
    h = MatMul(v, A) s = Sin(h) q = Mul(s, r) w = Mul(q, v)"""
    lines = show(
        vjp(parse(loop(body, "1,256", ", float[256,256] A")), "y", "x"), everything=True
    ).splitlines()
    said = [line.strip() for line in lines if line.strip().startswith("#")]
    assert said == [
        "# keep: the number of trips is known only when it runs; a trip keeps 3.0 KB:",
        "#   v FLOAT[1,256], 1.0 KB: carried into the trip",
        "#   r FLOAT[1,256], 1.0 KB: drawn at random",
        "#   h FLOAT[1,256], 1.0 KB: computing it again would run MatMul",
    ]


def value(dtype: ir.DataType | None, shape: list[int | str] | None) -> ir.Value:
    type_ = None if dtype is None else ir.TensorType(dtype)
    return ir.Value(name="v", type=type_, shape=None if shape is None else ir.Shape(shape))


def test_bytes_are_known_of_known_types_and_sizes() -> None:
    assert known_bytes(value(ir.DataType.FLOAT, [2, 3])) == 24
    assert known_bytes(value(ir.DataType.INT4, [3])) == 2
    assert known_bytes(value(ir.DataType.FLOAT, ["N", 3])) is None
    assert known_bytes(value(ir.DataType.FLOAT, None)) is None
    assert known_bytes(value(ir.DataType.STRING, [2])) is None
    assert known_bytes(value(None, [2])) is None


def test_more_costs_more() -> None:
    small, large, unknown = (value(ir.DataType.FLOAT, [n, 4]) for n in (1, 1000, "N"))
    assert keeping(small) < keeping(unknown) < keeping(large)

    def cost(op_type: str, *inputs: ir.Value, shape: list[int | str]) -> int:
        node = ir.node(op_type, list(inputs))
        node.outputs[0].type, node.outputs[0].shape = small.type, ir.Shape(shape)
        return work(node)

    assert cost("Reshape", large, small, shape=[4000]) == 0
    passed, slow = (cost(op, large, shape=[1000, 4]) for op in ("Neg", "Sin"))
    product = cost("MatMul", large, value(ir.DataType.FLOAT, [4, 1000]), shape=[1000, 1000])
    assert 0 < passed < slow < product
    table, index = value(ir.DataType.FLOAT, [10**6, 4]), value(ir.DataType.INT64, [2])
    assert cost("Gather", table, index, shape=[2, 4]) < passed

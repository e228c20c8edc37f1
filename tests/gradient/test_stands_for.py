"""An `Identity` that says in its metadata that it stops the gradient, or negates it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback import check, compile, gradient, load, names, save
from whileback.errors import UnsupportedError
from whileback.graph.scopes import STANDS_FOR, walk

# Where a gradient is zero everywhere that is said.
pytestmark = pytest.mark.filterwarnings("ignore:No value in of=")

X = np.float32([0.5, -1.25, 0.75])


def marked(text: str) -> ir.Model:
    """A model in which values whose names begin with `stop` or `neg` are marked so."""
    model = parse(text)
    for node in walk(model.graph):
        for prefix, operator in (("stop", "StopGradient"), ("neg", "NegateGradient")):
            if str(node.outputs[0].name).startswith(prefix):
                node.metadata_props[STANDS_FOR] = operator
    return model


def plain(body: str) -> str:
    return f"(float[3] x) => (float L) {{ {body} L = ReduceSum<keepdims = 0>(y) }}"


def slopes(model: ir.Model, times: int = 1) -> np.ndarray:
    """The gradient of the sum of the last gradient, once or several times."""
    of = "L"
    for _ in range(times):
        model = gradient(model, of, "x", reduce="sum")
        of = names(model)["x"]
    feeds = {"x": X, "c": X} if any(v.name == "c" for v in model.graph.inputs) else {"x": X}
    return compile(model)(feeds)[of]


# The same function with `c` for what is stopped, and 2·c - x for what is negated.
PAIRS = [
    ("stop = Identity(x) y = Mul(stop, x)", "y = Mul(c, x)"),
    ("t = Tanh(x) stop = Identity(t) y = Mul(stop, t)", "t = Tanh(x) k = Tanh(c) y = Mul(k, t)"),
    ("neg = Identity(x) y = Tanh(neg)", "d = Add(c, c) n = Sub(d, x) y = Tanh(n)"),
    (
        "neg = Identity(x) s = Mul(neg, x) stop = Identity(x) u = Mul(s, stop) y = Mul(u, x)",
        "d = Add(c, c) n = Sub(d, x) s = Mul(n, x) u = Mul(s, c) y = Mul(u, x)",
    ),
    (
        "copy = Identity(x) stop = Identity(x) neg = Identity(x) "
        "s = Mul(copy, stop) u = Mul(s, neg) y = Mul(u, u)",
        "d = Add(c, c) n = Sub(d, x) s = Mul(x, c) u = Mul(s, n) y = Mul(u, u)",
    ),
]
BRANCH = """true = Constant<value_ints = [1]>() b = Cast<to = 9>(true) c1 = Squeeze(b)
  y = If(c1) <
    then_branch = t () => (float[3] p) { stop_t = Identity(x) p = Mul(stop_t, x) },
    else_branch = e () => (float[3] q) { q = Neg(x) }>"""
LOOP = """n = Constant<value_int = 3>() one = Constant<value_float = 1.0>()
  start = Expand(one, size)
  y = Loop(n, , start) <body = b (int64 i, bool c, float[3] s) => (bool c1, float[3] s1) {
    c1 = Identity(c)
    KIND_s = Identity(s)
    t = Mul(KIND_s, x)
    u = Tanh(t)
    s1 = Add(u, s) }>"""
UNROLLED = "".join(
    f"KIND{k} = Identity(s{k}) t{k} = Mul(KIND{k}, x) u{k} = Tanh(t{k}) s{k + 1} = Add(u{k}, s{k}) "
    for k in range(3)
)
UNROLLED = (
    "one = Constant<value_float = 1.0>() s0 = Expand(one, size) " + UNROLLED + "y = Identity(s3)"
)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("body", "frozen"), PAIRS)
def test_nothing_flows_or_the_opposite(body: str, frozen: str, times: int) -> None:
    """Gradients of gradients do not pass either: neither level looks through the mark."""
    text = f"(float[3] x, float[3] c) => (float L) {{ {frozen} L = ReduceSum<keepdims = 0>(y) }}"
    expected = slopes(parse(text), times)
    np.testing.assert_allclose(slopes(marked(plain(body)), times), expected, rtol=1e-5)


@pytest.mark.parametrize("times", [1, 2])
def test_in_a_branch(times: int) -> None:
    expected = slopes(marked(plain("stop = Identity(x) y = Mul(stop, x)")), times)
    np.testing.assert_allclose(slopes(marked(plain(BRANCH)), times), expected, rtol=1e-6)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", ["stop", "neg", "copy"])
def test_in_a_loop(kind: str, times: int) -> None:
    size = "size = Constant<value_ints = [3]>() "
    loop, unrolled = (marked(plain(size + body.replace("KIND", kind))) for body in (LOOP, UNROLLED))
    np.testing.assert_allclose(slopes(loop, times), slopes(unrolled, times), rtol=1e-5)


def test_the_mark_outlives_files_and_gradients(tmp_path: Path) -> None:
    model = gradient(marked(plain(PAIRS[0][0])), "L", "x")
    save(model, tmp_path / "g.onnx")
    again = gradient(load(tmp_path / "g.onnx"), "x_grad", "x", reduce="sum")
    assert compile(again)({"x": X})[names(again)["x"]].tolist() == [0, 0, 0]


def test_finite_differences_take_it_for_a_copy() -> None:
    model = marked("""(float[3] x, float[3] w) => (float L) {
      stop = Identity(x) p = Mul(stop, w) L = ReduceSum<keepdims = 0>(p) }""")
    assert check(model, "L", "w").ok
    with pytest.raises(UnsupportedError) as info:
        check(model, "L", "x")
    assert str(info.value) == (
        f"Value 'stop' of model '{model.graph.name}' is what StopGradient makes of 'x', which "
        "finite differences take for a copy, so that they tell nothing of the gradient. Check "
        "values that it does not depend on."
    )

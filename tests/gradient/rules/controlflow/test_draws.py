"""The gradient of a loop that draws is that of a loop to which the same numbers are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.gradient import vjp
from whileback.graph.randomness import draws
from whileback.graph.scopes import subgraphs, walk

X = np.array([0.5, -1.25], np.float32)
SEEDS = {"y_grad": np.array([1.0, -0.5], np.float32), "x_grad_grad": np.float32([0.25, 2.0])}

IN_A_LOOP = """(int64 M, float[2] x, bool c%IN%) => (float[2] y%OUT%) {
  y%STACK% = Loop(M, , x)
    <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w%ROW%) {
    on = Identity(go)
    %BODY%
  }>
}"""
IN_LOOPS = """(int64 M, int64 K, float[2] x, bool c%IN%) => (float[2] y%OUT%) {
  y%STACK% = Loop(M, , x)
    <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w%ROW%) {
    on = Identity(go)
    t = Tanh(v)
    u%ROWS% = Loop(K, , t)
      <body = d (int64 j, bool e, float[2] p) => (bool f, float[2] q%ONE%) {
      f = Identity(e)
      s = Sin(p)
      %BODY%
    }>
    w = Add(u, t)
  }>
}"""


def variants(
    template: str,
    body: str,
    drawing: str,
    given: str,
    stack: str = "float[M0,N0]",
    row: str = "float[N0] r",
) -> tuple[str, str]:
    """Return the text of a model that draws, and of one that is given the draws as `R`."""
    parts = {
        "%BODY%": (body, body),
        "%DRAW%": (drawing, given),
        "%IN%": ("", f", {stack} R"),
        "%OUT%": (f", {stack} R", ""),
        "%STACK%": (", R", ""),
        "%ROW%": (f", {row}", ""),
        "%ROWS%": (", rr", ""),
        "%ONE%": (", float[N0] r", ""),
    }
    texts = [template, template]
    for mark, both in parts.items():
        texts = [text.replace(mark, part) for text, part in zip(texts, both, strict=True)]
    return texts[0], texts[1]


def derivatives(text: str) -> list[ir.Model]:
    """Return the gradient of a model, and the gradient of that."""
    first = vjp(parse(text), "y", "x")
    return [first, vjp(first, "x_grad", "x")]


def count_draws(model: ir.Model) -> int:
    return sum(draws(node) for node in walk(model.graph) if not subgraphs(node))


def judge(texts: tuple[str, str], **inputs: Any) -> None:
    """Compare the gradients of a model that draws with those of one that is given the draws."""
    feeds = {"x": X, "M": np.array(3), "c": np.array(True)}
    feeds |= {name: np.asarray(value) for name, value in inputs.items()}
    drawing, given = map(derivatives, texts)
    for own, other in zip(drawing, given, strict=True):
        assert count_draws(own) == count_draws(parse(texts[0])), "the gradient draws again"
        known = {value.name for value in own.graph.inputs}
        arguments = {n: v for n, v in {**feeds, **SEEDS}.items() if n in known}
        results = compile(own)(arguments)
        assert len(np.unique(results["R"])) > 1
        wanted = compile(other)({**arguments, "R": results["R"]})
        for name, value in wanted.items():
            np.testing.assert_allclose(results[name], value, rtol=2e-5, atol=1e-6, err_msg=name)
    known = {value.name for value in parse(texts[1]).graph.inputs}
    arguments = {n: v for n, v in {**feeds, "R": results["R"]}.items() if n in known}
    assert_gradient(texts[1], ["y"], ["x"], arguments, second_order=True)


DRAWS = {
    "like": "r = RandomNormalLike<scale = 0.5>(v)",
    "normal": "r = RandomUniform<low = -1.0, high = 2.0, shape = [2]>()",
    "bernoulli": "h = Sigmoid(v) b = Bernoulli(h) e = Constant<value_float = 0.5>() r = Add(b, e)",
}
ROW = "r = Gather(R, i)"
NESTED = ("float[M0,K0,N0]", "float[K0,N0] rr")
ONE = "rr_i = Gather(R, i) r = Gather(rr_i, j)"


@pytest.mark.parametrize("drawing", DRAWS.values(), ids=DRAWS)
def test_in_the_body(drawing: str) -> None:
    judge(variants(IN_A_LOOP, "%DRAW% a = Mul(v, r) w = Sin(a)", drawing, ROW))


BRANCH = """w, r = If(%IF%) <
  then_branch = t1 () => (float[2] w1, float[2] r1) {
    %DRAW% a = Sin(v) m = Mul(a, r) w1 = Mul(m, v) r1 = Identity(r)
  },
  else_branch = t2 () => (float[2] w2, float[2] r2) { w2 = Sin(v) r2 = Sub(v, v) }>
"""
REPLAYED = BRANCH.replace("%DRAW%", ROW).replace("r1 = Identity(r)", "r1 = Identity(a)")
TAKEN = "z = Constant<value_int = 2>() odd = Mod(i, z) k = Cast<to = 9>(odd) "


@pytest.mark.parametrize("like", [*DRAWS])
@pytest.mark.parametrize("condition", ["c", "k"])
def test_in_a_branch(condition: str, like: str) -> None:
    body = (TAKEN + BRANCH).replace("%IF%", condition)
    judge(variants(IN_A_LOOP, body, DRAWS[like], ROW), M=4)


def test_of_a_size_that_only_the_run_knows() -> None:
    body = (TAKEN + BRANCH).replace("%IF%", "k")
    texts = variants(IN_A_LOOP, body, DRAWS["like"], ROW)
    drawing, given = (text.replace("float[2]", "float[N]") for text in texts)
    judge((drawing, given), M=4)


def test_in_a_loop_in_the_body() -> None:
    body = "%DRAW% a = Mul(s, r) q = Add(a, p)"
    judge(variants(IN_LOOPS, body, "r = RandomNormalLike<scale = 0.5>(p)", ONE, *NESTED), K=2)


def test_in_a_branch_of_a_loop_in_the_body() -> None:
    body = BRANCH.replace("%IF%", "k").replace("w, r", "q, r").replace("(v", "(p")
    body = TAKEN.replace("(i", "(j") + body.replace(", v)", ", p)")
    judge(variants(IN_LOOPS, body, "r = RandomNormalLike<scale = 0.5>(p)", ONE, *NESTED), K=3)


def test_in_two_branches_of_a_loop() -> None:
    body = (
        TAKEN
        + """
      w, r = If(k) <
        then_branch = t1 () => (float[2] w1, float[2] r1) {
          w1, r1 = If(c) <
            then_branch = t3 () => (float[2] w3, float[2] r3) {
              %DRAW% a = Sin(v) w3 = Mul(a, r) r3 = Identity(r)
            },
            else_branch = t4 () => (float[2] w4, float[2] r4) { w4 = Cos(v) r4 = Sub(v, v) }>
        },
        else_branch = t2 () => (float[2] w2, float[2] r2) { w2 = Sin(v) r2 = Sub(v, v) }>
    """
    )
    judge(variants(IN_A_LOOP, body, DRAWS["like"], ROW), M=4)


def test_in_a_scan_of_a_loop() -> None:
    """A `Scan` has no trip number; what was drawn is one more stack that it reads."""
    body = """
      h = Expand(v, shape)
      w, r = Scan<num_scan_inputs = %COUNT%, scan_input_directions = [%BACK%],
                  body = d (%INPUTS%) => (float[2] q, float[2] s) {
        a = Sin(p) m = Mul(a, r) z = Mul(m, k) q = Add(z, p) s = Identity(r)
      }>(%READ%)
    """
    body = "shape = Constant<value_ints = [3, 2]>() " + body
    drawn = {
        "%COUNT%": "1", "%BACK%": "1", "%INPUTS%": "float[2] p, float[2] k", "%READ%": "v, h",
        "a = Sin(p)": "r = RandomNormalLike<scale = 0.5>(p) a = Sin(p)",
    }  # fmt: skip
    given = {
        "%COUNT%": "2", "%BACK%": "1, 0", "%READ%": "v, h, rs",
        "%INPUTS%": "float[2] p, float[2] k, float[2] r",
        "h = Expand": "rs = Gather(R, i) h = Expand",
    }  # fmt: skip
    bodies = []
    for changes in (drawn, given):
        changed = body
        for mark, text in changes.items():
            changed = changed.replace(mark, text)
        bodies.append(changed)
    types = ("float[M0,3,2]", "float[3,2] r")
    texts = [variants(IN_A_LOOP, each, "", "", *types)[k] for k, each in enumerate(bodies)]
    judge((texts[0], texts[1]), M=2)


DROPOUT = """(int64 M, float[60] x, bool c, float ratio, bool training) => (float[60] y) {
  y = Loop(M, , x) <body = b (int64 i, bool go, float[60] v) => (bool on, float[60] w) {
    on = Identity(go)
    %BODY%
  }>
}"""
DROPOUTS = {
    "body": "d = Dropout(v, ratio, training) w = Mul(d, x)",
    "branch": """w = If(c) <
      then_branch = t1 () => (float[60] w1) { d = Dropout(v, ratio, training) w1 = Mul(d, x) },
      else_branch = t2 () => (float[60] w2) { w2 = Identity(v) }>""",
    "loop": """K = Constant<value_int = 2>()
      w = Loop(K, , v) <body = e (int64 j, bool f, float[60] p) => (bool g, float[60] q) {
        g = Identity(f) d = Dropout(p, ratio, training) q = Mul(d, x)
      }>""",
    "default ratio": """w = If(c) <
      then_branch = t1 () => (float[60] w1) { d = Dropout(v, , training) w1 = Mul(d, x) },
      else_branch = t2 () => (float[60] w2) { w2 = Identity(v) }>""",
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("body", DROPOUTS.values(), ids=DROPOUTS)
def test_the_masks_of_dropout(body: str, training: bool) -> None:
    """y = x^(1 + trips)·factor where no trip has dropped it, which y itself tells."""
    text = DROPOUT.replace("%BODY%", body)
    model = vjp(parse(text), "y", "x")
    assert count_draws(model) == 1
    x, seed = np.linspace(1, 2, 60, dtype=np.float32), np.linspace(-1, 3, 60, dtype=np.float32)
    ratio = 0.5 if "v, ," in body else 0.25
    feeds = {"M": 2, "x": x, "c": True, "ratio": np.float32(ratio), "training": training}
    results = compile(model)({**feeds, "y_grad": seed})
    y, trips = results["y"], 4 if "Loop" in body else 2
    factor = (1 - ratio) ** -trips if training else 1.0
    np.testing.assert_allclose(y, np.where(y == 0, 0, factor * x ** (trips + 1)), rtol=1e-5)
    assert (y == 0).any() == training
    np.testing.assert_allclose(results["x_grad"], seed * (trips + 1) * y / x, rtol=1e-5)


def test_other_shapes_in_every_trip_are_refused_with_what_to_do() -> None:
    body = """n = Squeeze(i) k = Range(zero, n, one) t = Gather(v, k) r = RandomNormalLike(t)
      u = Mul(r, t) s = ReduceSum<keepdims = 0>(u) w = Mul(v, s)"""
    text = f"""(int64 M, float[5] x) => (float[5] y) {{
      zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
      y = Loop(M, , x) <body = b (int64 i, bool go, float[5] v) => (bool on, float[5] w) {{
        on = Identity(go) {body}
      }}>
    }}"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(text), "y", "x")
    assert str(caught.value) == (
        "Node 'RandomNormalLike' (RandomNormalLike) draws random numbers inside a loop, and the "
        "way back cannot keep them, since their shape changes from trip to trip. Draw as many "
        "numbers in every trip, or draw before the loop and pass the numbers in."
    )


def test_other_numbers_of_trips_are_refused_with_what_to_do() -> None:
    text = """(int64 M, float[2] x) => (float[2] y) {
      y = Loop(M, , x) <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w) {
        on = Identity(go)
        w = Loop(i, , v) <body = d (int64 j, bool e, float[2] p) => (bool f, float[2] q) {
          f = Identity(e) r = RandomNormal<shape = [2]>() q = Mul(p, r)
        }>
      }>
    }"""
    with pytest.raises(UnsupportedError) as caught:
        vjp(parse(text), "y", "x")
    assert "Node 'Loop_1' (Loop) draws random numbers inside a loop" in str(caught.value)

"""Operators whose gradients go by way of others, in loops and branches, and with few inputs."""

import numpy as np
import pytest
from tests.gradient.rules.nn.single import values
from tests.judge import assert_gradient, parse

from whileback.gradient import vjp

IMAGE = values(1, 1, 3, 3)
POINTS = np.random.default_rng(0).uniform(-0.9, 0.9, (1, 3, 3, 2)).astype(np.float32)
MOVES = np.random.default_rng(1).uniform(-0.9, 0.9, (1, 2, 3, 3)).astype(np.float32)
ROI, FIRST = np.array([[0.2, 0.3, 2.2, 2.4]], np.float32), np.zeros(1, np.int64)

# A call that makes an image of an image h, and its other inputs.
CALLS = [
    ("GridSample(h, a)", {"a": POINTS}),
    ('GridSample<mode = "cubic", padding_mode = "reflection">(h, a)', {"a": POINTS}),
    ("DeformConv(h, a, b)", {"a": values(1, 1, 1, 1), "b": MOVES}),
    ("RoiAlign<output_height = 3, output_width = 3>(h, a, b)", {"a": ROI, "b": FIRST}),
    (
        'RoiAlign<output_height = 3, output_width = 3, mode = "max">(h, a, b)',
        {"a": ROI, "b": FIRST},
    ),
]


def judge(call, given, nodes):
    kinds = {name: "int64" if v.dtype.kind == "i" else "float" for name, v in given.items()}
    head = ", ".join(
        f"{kinds[name]}[{','.join(map(str, value.shape))}] {name}" for name, value in given.items()
    )
    model = f"(float[1,1,3,3] x, {head}, bool c) => (float[1,1,3,3] y) {{ {nodes} }}"
    inputs = {"x": IMAGE, **given, "c": np.array(True)}
    wrt = ["x", *(name for name, kind in kinds.items() if kind == "float")]
    assert_gradient(model, ["y"], wrt, inputs, second_order=True)


@pytest.mark.parametrize(("call", "given"), CALLS)
def test_in_a_loop(call, given):
    body = f"""(int64 i, bool c, float[1,1,3,3] h) => (bool d, float[1,1,3,3] k) {{
      d = Identity(c) k = {call}
    }}"""
    judge(call, given, f"n = Constant<value_int = 2>() y = Loop<body = b {body}>(n, , x)")


@pytest.mark.parametrize(("call", "given"), CALLS[:1])
def test_in_a_branch(call, given):
    image = "() => (float[1,1,3,3] k)"
    branches = f"""then_branch = t {image} {{ h = Neg(x) k = {call} }},
      else_branch = e {image} {{ k = Mul(x, x) }}"""
    judge(call, given, f"y = If<{branches}>(c)")


def test_what_is_not_asked_for_is_not_computed():
    model = "(float[1,1,3,3] x, float[1,3,3,2] g) => (float[1,1,3,3] y) { y = GridSample(x, g) }"
    both, image, grid = (
        [node.op_type for node in vjp(parse(model), of="y", wrt=wrt).graph]
        for wrt in (["x", "g"], "x", "g")
    )
    assert "ScatterElements" in image
    assert "ScatterElements" not in grid
    assert len(image) < len(both)
    assert len(grid) < len(both)

"""Models of a new opset keep their values when they are written in an old one."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import UnsupportedError
from whileback.graph.normalize import normalize

REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod SumSquare"
CASES = [
    *((f"y = Reduce{name} (x, axes)", 13) for name in REDUCTIONS.split()),
    ("y = ReduceMean <keepdims=0> (x)", 13),
    ("y = ReduceMax <noop_with_empty_axes=1> (x, axes)", 13),
    ("y = ReduceSum (x, axes)", 12),
    ("y = ReduceSum (x, axes)", 13),
    ("a, y = Split <axis=1, num_outputs=2> (x)", 13),
    ("y = Reshape <allowzero=1> (x, shape)", 13),
    ("s = Shape <start=1> (x) y = Cast <to=1> (s)", 14),
    ("s = Shape <start=-2, end=-1> (x) y = Cast <to=1> (s)", 13),
    ("i = Shape (x) s = CastLike (i, x) y = Neg (s)", 13),
]


@pytest.mark.parametrize("nodes, opset", CASES, ids=[f"{n} {o}" for n, o in CASES])
def test_lowered_model_computes_the_same(nodes: str, opset: int) -> None:
    text = f"""(float[2,4,3] x) => (float[] y)
      <int64[1] axes = {{1}}, int64[2] shape = {{4, -1}}> {{ {nodes} }}"""
    model = normalize(parse(text), opset=opset)
    assert model.graph.opset_imports == {"": opset}
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    feeds = {"x": np.random.default_rng(1).random((2, 4, 3), np.float32)}
    want, got = (compile(m, threads=1)(feeds)["y"] for m in (parse(text), model))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "nodes, needed",
    [
        ("y = ReduceMean (x, a)", "ReduceMean) needs opset 18"),
        ("y = ReduceMean <noop_with_empty_axes=1> (x)", "ReduceMean) needs opset 18"),
        ("y, z = Split <num_outputs=2> (x)", "Split) needs opset 18"),
        ("y = Reshape <allowzero=1> (x, a)", "Reshape) needs opset 14"),
    ],
)
def test_what_only_the_newer_form_can_say(nodes: str, needed: str) -> None:
    with pytest.raises(UnsupportedError, match=needed.replace(")", r"\)")):
        normalize(parse(f"(float[3,2] x, int64[1] a) => (float[] y) {{ {nodes} }}"), opset=13)

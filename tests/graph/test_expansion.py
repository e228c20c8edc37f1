"""Composite operators are replaced by what ONNX defines for them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient_model, parse

import whileback
from whileback.engines import compile
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk

COMPOSITE = frozenset(
    schema.name
    for schema in onnx.defs.get_all_schemas()
    if schema.domain == "" and (schema.has_function or schema.has_context_dependent_function)
)


def expanded(text: str, opset: int = 21) -> ir.Model:
    """Expand all composite operators, and check that none is left."""
    model = normalize(parse(text, opset), needs_expansion=lambda n: n.op_type in COMPOSITE)
    assert not {node.op_type for node in walk(model.graph)} & COMPOSITE
    return model


CASES = [
    ("Elu", "y = Elu <alpha=0.5> (x)", 21),
    ("Elu with its default", "y = Elu (x)", 21),
    ("Shrink", "y = Shrink <lambd=0.3> (x)", 21),
    ("Softplus", "y = Softplus (x)", 21),
    ("HardSwish", "y = HardSwish (x)", 21),
    ("Softmax", "y = Softmax <axis=0> (x)", 21),
    ("LogSoftmax of an old opset", "y = LogSoftmax <axis=1> (x)", 9),
    ("Gelu", 'y = Gelu <approximate="none"> (x)', 21),
    ("ReduceL1", "y = ReduceL1 <axes=[1]> (x)", 13),
    ("LayerNormalization", "y = LayerNormalization (x, s)", 21),
    ("LayerNormalization, all", "y, m, v = LayerNormalization <axis=0> (x, x, x)", 21),
    ("MeanVarianceNormalization", "y = MeanVarianceNormalization <axes=[0]> (x)", 21),
    ("nested", "t = Constant <value = int64[2] {1,0}> () "
     "y = SoftmaxCrossEntropyLoss <reduction=\"sum\"> (x, t)", 21),
    ("PRelu", "y = PRelu (x, s)", 21),
]  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["main", "branch"])
@pytest.mark.parametrize("nodes, opset", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_expansion_computes_the_same(nodes: str, opset: int, inside: bool) -> None:
    if inside:
        nodes = (
            f"z = If (c) <then_branch = t () => (float[] y) {{ {nodes} }}, "
            f"else_branch = e () => (float[] n) {{ {nodes} n = Neg (y) }}>"
        )
    output = "z" if inside else "y"
    text = f"(float[2,3] x, float[3] s, bool c) => (float[] {output}) {{ {nodes} }}"
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, 3)).astype(np.float32),
        "s": rng.standard_normal(3).astype(np.float32),
        "c": np.array(True),
    }
    want = compile(parse(text, opset), threads=1)(feeds)[output]
    got = compile(expanded(text, opset), threads=1)(feeds)[output]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_new_nodes_are_named_after_the_one_they_come_from() -> None:
    model = expanded("(float[2] x) => (float[2] y) { [act] y = Softplus (x) }")
    assert [node.name for node in model.graph] == [
        "act/Exp", "act/CastLike", "act/Add", "act/Log",
    ]  # fmt: skip
    assert model.graph.outputs[0].name == "y"


def test_operators_without_a_definition_stay() -> None:
    text = "(float[2] x) => (float[2] y) { a = Sin (x) y = my.Elu (a) }"
    head = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]> g '
    model = normalize(parse(head + text), needs_expansion=lambda node: True)
    assert [node.op_type for node in model.graph] == ["Sin", "Elu"]


def test_nothing_is_expanded_unasked() -> None:
    model = normalize(parse("(float[2] x) => (float[2] y) { y = Elu (x) }"))
    assert [node.op_type for node in model.graph] == ["Elu"]


FLEX = (
    "(float[2,4,3,5] Q, float[2,2,6,5] K, float[2,2,6,3] V, float[6] Score) "
    "=> (float[2,4,3,3] Y) {{ {} }}"
)
HEAD = '<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview" : 1]> g '
PLAIN = """
    two = Constant <value_ints = [2]> ()
    Ks = Unsqueeze (K, two)
    Vs = Unsqueeze (V, two)
    many = Constant <value_ints = [1, 1, 2, 1, 1]> ()
    Kt = Tile (Ks, many)
    Vt = Tile (Vs, many)
    shape = Constant <value_ints = [2, 4, 6, -1]> ()
    K4 = Reshape (Kt, shape)
    V4 = Reshape (Vt, shape)
    KT = Transpose <perm = [0, 1, 3, 2]> (K4)
    QK = MatMul (Q, KT)
    scale = Constant <value_float = {scale}> ()
    s = Mul (QK, scale)
    {score}
    p = Softmax <axis = -1> (r)
    {prob}
    Y = MatMul (q, V4)
"""
# The names in its graphs are those of values in ONNX's definition. They read values from outside.
FLEXIBLE = [
    ("", 5**-0.5, "r = Identity (s)", "q = Identity (p)"),
    ("scale=0.3", 0.3, "r = Identity (s)", "q = Identity (p)"),
    (
        "score_mod = f (float[B,H,L,S] Prob) => (float[B,H,L,S] Y1) { Y1 = Add (Prob, Score) }",
        5**-0.5,
        "r = Add (s, Score)",
        "q = Identity (p)",
    ),
    (
        "score_mod = f (float[B,H,L,S] s) => (float[B,H,L,S] r) <float cap = {2.0}> "
        "{ d = Div (s, cap) t = Tanh (d) r = Mul (t, cap) }, "
        "prob_mod = g (float[B,H,L,S] p) => (float[B,H,L,S] q) { h = Mul (p, Score) q = Gelu (h) }",
        5**-0.5,
        "cap = Constant <value_float = 2.0> () d = Div (s, cap) t = Tanh (d) r = Mul (t, cap)",
        "h = Mul (p, Score) q = Gelu (h)",
    ),
]


@pytest.mark.parametrize(("attributes", "scale", "score", "prob"), FLEXIBLE)
def test_flex_attention(attributes: str, scale: float, score: str, prob: str) -> None:
    given = f"<{attributes}>" if attributes else ""
    node = f"Y = ai.onnx.preview.FlexAttention {given} (Q, K, V)"
    flexible = ir.from_onnx_text(HEAD + FLEX.format(node))
    plain = ir.from_onnx_text(HEAD + FLEX.format(PLAIN.format(scale=scale, score=score, prob=prob)))
    wrt = ["Q", "K", "V", *(["Score"] if "Score" in attributes else [])]
    gradient_model = whileback.vjp(flexible, of="Y", wrt=wrt)
    assert_gradient_model(plain, gradient_model, ["Y"], wrt, {})

"""What ONNX Runtime's operators are made of computes what its own kernels compute.

And finite differences judge its gradients.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.graph.definitions.microsoft_cases import (
    BIAS,
    CASES,
    HEADER,
    INPUT,
    NOTHING,
    WEIGHTS,
    Case,
    Q,
    bytes_,
    floats,
    grouped,
    ms,
)
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import NoGradientError
from whileback.gradient import vjp
from whileback.graph.definitions.table import definitions
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk


def expanded(text: str) -> ir.Model:
    model = normalize(
        parse(text), needs_expansion=lambda node: (node.domain, node.op_type) in definitions()
    )
    assert not any((n.domain, n.op_type) in definitions() for n in walk(model.graph))
    return model


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_computes_what_the_kernel_computes(case: Case) -> None:
    for text in map(case.text, case.kinds):
        want = compile(parse(text), optimization="disabled")(case.feeds)
        got = compile(expanded(text), optimization="disabled")(case.feeds)
        assert list(got) == list(want)
        for name, value in want.items():
            assert got[name].dtype == value.dtype
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith(NOTHING)])
def test_gradient(name: str) -> None:
    """Where all keys are masked, all scores are -10000 and some more, of which little is left."""
    case = CASES[name]
    options = {"kinks": case.kinks, "elements": 8, "directions": 2}
    for symbols in case.kinds:
        text = case.text(symbols)
        assert_gradient(text, case.of, case.wrt, case.feeds, second_order=not symbols, **options)


def test_dynamically_quantised() -> None:
    """What is rounded differs in a few places; for the gradient see the rules of its parts."""
    case = ms(
        "DynamicQuantizeMatMul",
        floats(2, 3),
        bytes_(3, 4, dtype=np.int8),
        np.float32(0.1),
        None,
        floats(4),
    )
    want = compile(parse(case.text()), optimization="disabled")(case.feeds)["y"]
    got = compile(expanded(case.text()), optimization="disabled")(case.feeds)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    with pytest.raises(NoGradientError, match="DynamicQuantizeLinear"):
        vjp(parse(case.text()), "y", "x0")
    model = vjp(parse(case.text()), "y", "x0", quantized="straight-through")
    seed = floats(2, 4, seed=3)
    got = compile(model)({**case.feeds, "y_grad": seed})["x0_grad"]
    np.testing.assert_allclose(got, seed @ (0.1 * case.inputs[1].T), rtol=1e-5)


def test_packed_queries_keys_and_values() -> None:
    """Kernels of other devices take these; they are those that are not packed, side by side."""
    packed = floats(2, 3, 2, 3, 4)
    flat = [packed[:, :, :, index].reshape(2, 3, 8) for index in range(3)]
    plain = ms("MultiHeadAttention<num_heads = 2>", *flat)
    want = compile(parse(plain.text()))(plain.feeds)["y"]
    for inputs in ([packed], [flat[0], packed[:, :, :, 1:]]):
        case = ms("MultiHeadAttention<num_heads = 2>", *inputs)
        got = compile(expanded(case.text()))(case.feeds)["y"]
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("axis", "bias"), [(3, (2, 1, 1, 5)), (3, (4, 5)), (2, (2, 3, 4, 5)), (1, (1, 3, 4, 5))]
)
def test_softmax_with_a_bias(axis: int, bias: tuple[int, ...]) -> None:
    """No kernel for this device has it; all axes from one on count as one."""
    call = f"BiasSoftmax<axis = {axis}, is_inner_broadcast = 1>"
    case = ms(call, floats(2, 3, 4, 5), floats(*bias))
    total = floats(2, 3, 4, 5) + floats(*bias)
    flat = total.reshape(*total.shape[:axis], -1)
    want = np.exp(flat) / np.exp(flat).sum(-1, keepdims=True)
    model = expanded(case.text())
    np.testing.assert_allclose(
        compile(model)(case.feeds)["y"], want.reshape(total.shape), rtol=1e-5
    )
    assert_gradient(model, ["y"], case.wrt, case.feeds, second_order=True)


def test_dropout_with_a_bias() -> None:
    text = f"""{HEADER} (float[60] x, float[60] b, float[60] r, float p, bool t)
      => (float[60] y, bool[60] m) {{ y, m = com.microsoft.BiasDropout(x, b, r, p, t) }}"""
    x, b, r, seed = (floats(60, seed=s) for s in range(4))
    feeds = {"x": x, "b": b, "r": r, "p": np.float32(0.25), "t": True, "y_grad": seed}
    results = compile(vjp(parse(text), "y", ["x", "b", "r"]))(feeds)
    kept = results["m"] / np.float32(0.75)
    assert 0 < results["m"].sum() < 60
    np.testing.assert_allclose(results["y"], (x + b) * kept + r, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["x_grad"], seed * kept, rtol=1e-5)
    np.testing.assert_allclose(results["b_grad"], seed * kept, rtol=1e-5)
    np.testing.assert_array_equal(results["r_grad"], seed)


def test_layer_normalization_before_it_was_one_of_onnx() -> None:
    text = "(float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization(x, s) }"
    x, s = floats(2, 3), floats(3)
    assert_gradient(text, ["y"], ["x", "s"], {"x": x, "s": s}, opset=13, second_order=True)


def test_in_a_loop_behind_another() -> None:
    """The types of what the second one reads are known once the first one is expanded."""
    text = f"""{HEADER} (int64 n, float[2,3] x, float[3,3] w, float[3] b) => (float[2,3] y) {{
      h = com.microsoft.FusedMatMul(x, w)
      y = Loop(n, , h) <body = body (int64 i, bool go, float[2,3] v)
          => (bool on, float[2,3] u) {{
        on = Identity(go)
        p = com.microsoft.FusedGemm<activation = "Tanh">(v, w, b)
        q = com.microsoft.BiasGelu(p, b)
        u = com.microsoft.QuickGelu(q)
      }}>
    }}"""
    feeds = {"n": np.array(2), "x": floats(2, 3), "w": floats(3, 3), "b": floats(3)}
    assert_gradient(text, ["y"], ["x", "w", "b"], feeds, second_order=True)


REFUSED = {
    "an unknown activation": (
        ms('FusedGemm<activation = "Affine">', floats(2, 3), floats(3, 4)),
        "com.microsoft@1::FusedGemm",
        "Node 'FusedGemm' (com.microsoft::FusedGemm) ends in the activation 'Affine', which is "
        "not known; known are Clip, Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, "
        "Softsign, Tanh, ThresholdedRelu. Take them apart in the model.",
    ),
    "a cache that moves on": (
        grouped(", local_window_size = 2, sliding_window_cache = 1", 1, 4, 5),
        "com.microsoft@1::GroupQueryAttention",
        "Node 'GroupQueryAttention' (com.microsoft::GroupQueryAttention) has "
        "'sliding_window_cache', which is not differentiated. Export the model without.",
    ),
    "a shared buffer": (
        ms("Attention<num_heads = 2, past_present_share_buffer = 1>", INPUT, WEIGHTS, BIAS),
        "com.microsoft@1::Attention",
        "Node 'Attention' (com.microsoft::Attention) has the attribute "
        "'past_present_share_buffer', which is not differentiated. Export the model without.",
    ),
    "queries without keys": (
        ms("MultiHeadAttention<num_heads = 2>", Q),
        "com.microsoft@1::MultiHeadAttention",
        "Node 'MultiHeadAttention' (com.microsoft::MultiHeadAttention) has queries, keys and "
        "values of the ranks [3, None, None], with which it has no plain meaning. Declare their "
        "shapes; dimensions may be symbols.",
    ),
}


@pytest.mark.parametrize("case, operator, reason", REFUSED.values(), ids=REFUSED)
def test_what_has_no_definition_is_refused_with_the_reason(
    case: Case, operator: str, reason: str
) -> None:
    with pytest.raises(NoGradientError) as caught:
        vjp(parse(case.text()), "y", "x0")
    name = operator.rpartition("::")[2]
    assert str(caught.value) == (
        "The gradient meets operators that have no rule:\n"
        f"  {operator}: node '{name}'\n"
        'Register a rule for each with @whileback.rule("domain::Op"), or name other values in '
        "of= and wrt=, between which they do not lie. `whileback rules OP` tells more.\n"
        f"{reason}"
    )


def test_what_has_no_definition_does_not_matter_off_the_way() -> None:
    text = f"""{HEADER} (float[2,3] x, float[3,4] w) => (float[2,3] y, float[2,4] z) {{
      y = Sin(x) z = com.microsoft.FusedGemm<activation = "Affine">(x, w)
    }}"""
    assert [node.op_type for node in vjp(parse(text), "y", "x").graph][:2] == ["Sin", "FusedGemm"]

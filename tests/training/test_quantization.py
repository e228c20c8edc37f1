"""Quantised models: which of their weights are trained, how, and what they become again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError, UnsupportedError, WhilebackWarning
from whileback.gradient import names
from whileback.training import adam, cross_entropy, evaluation, export, interface, sgd, step
from whileback.training.quantization import requantized

WEIGHTS = "10,20,30, -10,-20,-30, 5,6,7, -5,-6,100"
MODEL = f"""(float[N,4] x) => (float[N,3] y)
    <float sx = {{0.05}}, int8 zx = {{3}}, float[3] sw = {{0.02, 0.03, 0.04}},
     int8[4,3] w = {{{WEIGHTS}}}, int32[3] b = {{100, -100, 50}},
     float[3] sb = {{0.001, 0.0015, 0.002}}> {{
    q = QuantizeLinear(x, sx, zx)
    d = DequantizeLinear(q, sx, zx)
    f = DequantizeLinear(w, sw)
    m = MatMul(d, f)
    c = DequantizeLinear<axis = 0>(b, sb)
    y = Add(m, c)
}}"""
DYNAMIC = f"""(float[N,4] x) => (float[N,3] y)
    <float sw = {{0.02}}, int8 zw = {{0}}, int8[4,3] w = {{{WEIGHTS}}}, float[3] b = {{1, 2, 3}}> {{
    q, s, z = DynamicQuantizeLinear(x)
    p = MatMulInteger(q, w, z, zw)
    c = Cast<to = 1>(p)
    r = Mul(s, sw)
    e = Mul(c, r)
    y = Add(e, b)
}}"""
# How weights may be held: type, scale, zero point, attributes.
FORMS = {
    "int8": ("int8", "float s = {0.1}", "int8 z = {3}", ""),
    "no zero point": ("int8", "float s = {0.1}", "", ""),
    "rows": ("uint8", "float[4] s = {0.1, 0.2, 0.3, 0.4}", "uint8[4] z = {9, 8, 7, 6}", "axis = 0"),
    "columns": ("int16", "float[3] s = {0.1, 0.2, 0.3}", "int16[3] z = {9, 8, 7}", "axis = -1"),
    "one number": ("uint16", "float[1] s = {0.1}", "uint16[1] z = {9}", ""),
    "blocks": (
        "int8",
        "float[2,3] s = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}",
        "int8[2,3] z = {1, 2, 3, 4, 5, 6}",
        "axis = 0, block_size = 2",
    ),
}


def held(form: str) -> ir.Model:
    dtype, scale, zero, attributes = FORMS[form]
    tensors = ", ".join(each for each in (scale, zero) if each)
    listed = ", ".join(["w", "s", "z"][: 3 if zero else 2])
    return parse(
        f"""(float[N,4] x) => (float[N,3] y)
        <{dtype}[4,3] w = {{1,2,3, 4,5,6, 7,8,9, 10,11,12}}, {tensors}> {{
        f = DequantizeLinear<{attributes}>({listed})
        y = MatMul(x, f)
    }}""".replace("<>(", "(")
    )


def batch(count: int = 64) -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.normal(size=(count, 4)).astype("f")
    return {"x": x, "label": x @ random.normal(size=(4, 3)).astype("f")}


@pytest.mark.parametrize("form", FORMS)
def test_the_first_step_computes_what_the_model_does(form: str) -> None:
    """Nothing is lost when whole numbers become floats and are quantised again."""
    model, feeds = held(form), batch()
    one = step(model, "mse", sgd(), quantized="straight-through")
    assert interface(one).parameters == ["w"]
    y = compile(model, optimization="basic")(x=feeds["x"])["y"]
    out = compile(one)(feeds, learning_rate=0.0)
    np.testing.assert_allclose(out["loss"], ((y - feeds["label"]) ** 2).mean(), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_quantising_is_what_the_engine_does(form: str) -> None:
    dtype, scale, zero, attributes = FORMS[form]
    model = held(form)
    node = next(each for each in model.graph if each.op_type == "DequantizeLinear")
    tensors = [None if v is None else v.const_value for v in [*node.inputs[1:], None][:2]]
    s, z = (None if each is None else each.numpy() for each in tensors)
    w = np.random.default_rng(0).normal(size=(4, 3)).astype("f") * 100
    attributes = ", ".join(each for each in (attributes, f"output_dtype = {CODES[dtype]}") if each)
    listed = ", ".join(["w", "s", "z"][: 3 if zero else 2])
    tensors_text = ", ".join(each for each in (scale, zero) if each)
    text = f"""(float[4,3] w) => ({dtype}[4,3] y) <{tensors_text}> {{
        y = QuantizeLinear<{attributes}>({listed}) }}"""
    expected = compile(parse(text))(w=w)["y"]
    np.testing.assert_array_equal(requantized(node, w, s, z, ir.DataType[dtype.upper()]), expected)


CODES = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}


def test_a_model_learns() -> None:
    model = parse(MODEL)
    one = step(model, "mse", adam(), quantized="straight-through")
    assert interface(one).parameters == ["w", "b"]
    f, kept, feeds = compile(one), {}, batch()
    losses = []
    for _ in range(250):
        out = f(kept | feeds, learning_rate=0.05)
        kept = {old: out[new] for old, new in names(one).items()}
        losses.append(float(out["loss"]))
    assert losses[0] > 3
    assert losses[-1] < 0.02
    parameters = {name: kept[name] for name in interface(one).parameters}
    last = float(f(kept | feeds, learning_rate=0.0)["loss"])
    exported = export(model, parameters)
    assert exported.graph.initializers["w"].const_value.dtype == ir.DataType.INT8
    y = compile(exported, optimization="basic")(x=feeds["x"])["y"]
    out = compile(evaluation(model, "mse", one))(feeds | parameters)
    assert out["loss"] == pytest.approx(last, rel=1e-5)
    # The bias alone is rounded only now, to multiples of these scales.
    assert (np.abs(y - out["y"]) <= 0.51 * np.array([0.001, 0.0015, 0.002])).all()


def test_slopes_are_those_of_floats() -> None:
    """Of the model that holds what the whole numbers stand for, but where they are clipped."""
    floats = np.arange(1, 13).reshape(4, 3).astype("f") * 0.1
    plain = parse("(float[N,4] x, float[4,3] w) => (float[N,3] y) { y = MatMul(x, w) }")
    plain.graph.inputs.pop()
    w = next(iter(plain.graph)).inputs[1]
    w.const_value = ir.tensor(floats, name="w")
    plain.graph.register_initializer(w)
    feeds = batch() | {"learning_rate": 1.0}
    expected = floats - compile(step(plain, "mse", "sgd"))(feeds)["w_next"]
    one = step(held("no zero point"), "mse", "sgd", quantized="straight-through")
    np.testing.assert_allclose(floats - compile(one)(feeds)["w_next"], expected, rtol=1e-4)


def test_floats_that_the_model_quantises() -> None:
    """As it is after training that was aware of quantisation: the floats are trained."""
    text = """(float[N,4] x) => (float[N,3] y) <float s = {0.1}, int8 z = {0},
        float[4,3] w = {1,2,3, 4,5,6, 7,8,9, 10,11,12}> {
        q = QuantizeLinear(w, s, z) d = DequantizeLinear(q, s, z) y = MatMul(x, d) }"""
    one = step(parse(text), "mse", "sgd", quantized="straight-through")
    assert interface(one).parameters == ["w"]
    out = compile(one)(batch(), learning_rate=0.01)
    assert out["w_next"].dtype == np.float32
    assert (out["w_next"] != np.arange(1, 13).reshape(4, 3)).all()


@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
def test_weights_of_a_loop(engine: str) -> None:
    pytest.importorskip("jax")
    text = """(float[N,3] x) => (float[N,3] y)
        <int8[3,3] w = {1,2,3, 4,5,6, 7,8,9}, float s = {0.1}> {
        n = Constant<value_int = 3>()
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[N,3] u) => (bool d, float[N,3] v) {
            d = Identity(c) f = DequantizeLinear(w, s) a = MatMul(u, f) v = Tanh(a) }> }"""
    one = step(parse(text), "mse", "sgd", quantized="straight-through")
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f")
    out = compile(one, engine=engine)(x=x, label=x, learning_rate=1.0)
    plain = compile(step(parse(PLAIN_LOOP), "mse", "sgd"))(x=x, label=x, learning_rate=1.0)
    np.testing.assert_allclose(out["w_next"], plain["w_next"], rtol=1e-4, atol=1e-6)


PLAIN_LOOP = """(float[N,3] x) => (float[N,3] y)
    <float[3,3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}> {
    n = Constant<value_int = 3>()
    y = Loop(n, "", x) <body = b (int64 i, bool c, float[N,3] u) => (bool d, float[N,3] v) {
        d = Identity(c) a = MatMul(u, w) v = Tanh(a) }> }"""


def test_weights_that_several_nodes_read() -> None:
    """As quantisers write them, with a `DequantizeLinear` for each reader; but in one way."""
    text = """(float[N,3] x) => (float[N,3] y)
        <int8[3,3] w = {1,2,3, 4,5,6, 7,8,9}, float s = {0.1}, float t = {0.2}> {
        f = DequantizeLinear(w, s) g = DequantizeLinear(w, S) a = MatMul(x, f) y = MatMul(a, g) }"""
    one = step(parse(text.replace("S", "s")), "mse", "sgd", quantized="straight-through")
    assert interface(one).parameters == ["w"]
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f")
    out = compile(one)(x=x, label=x, learning_rate=0.1)
    plain = parse(PLAIN_LOOP.split("n = ")[0] + "a = MatMul(x, w) y = MatMul(a, w) }")
    expected = compile(step(plain, "mse", "sgd"))(x=x, label=x, learning_rate=0.1)
    np.testing.assert_allclose(out["w_next"], expected["w_next"], rtol=1e-4)
    with pytest.raises(ArgumentError, match="depends on no float tensor"):
        step(parse(text.replace("S", "t")), "mse", "sgd", quantized="straight-through")


def test_a_loss_of_quantised_probabilities() -> None:
    """It reads the logits of these, not the probabilities as if they were logits."""
    text = MODEL.replace(
        "y = Add(m, c)",
        """z = Add(m, c)
        v = Flatten(z)
        p = Softmax(v)
        k = QuantizeLinear(p, sx, zx)
        y = DequantizeLinear(k, sx, zx)""",
    )
    one = step(parse(text), "cross-entropy", "sgd", quantized="straight-through")
    assert interface(one).losses == {
        "loss": "cross-entropy of 'v', the logits of 'y', which node 'Softmax' (Softmax) makes"
    }


def test_a_loss_of_a_quantised_input() -> None:
    """A `DequantizeLinear` alone is what the loss reads."""
    text = """(int8[N,3] x) => (float[N,3] y) <float s = {0.1}, float[3] w = {1, 2, 3}> {
        a = DequantizeLinear(x, s) z = Mul(a, w) y = DequantizeLinear(x, s) }"""
    loss = cross_entropy(output="y")
    with pytest.raises(ArgumentError, match="depends on no float tensor"):
        step(parse(text), loss, "sgd", quantized="straight-through")
    known = interface(step(parse(text), [loss, cross_entropy(output="z", label="l")], "sgd"))
    assert known.losses["loss_0"] == "cross-entropy of 'y', taken as logits"


def test_scales_are_trained_where_they_are_named() -> None:
    known = interface(step(parse(MODEL), "mse", "sgd", ["w", "s*"], quantized="straight-through"))
    assert sorted(known.parameters) == ["sb", "sw", "sx", "w"]


def test_a_scale_that_was_trained_quantises() -> None:
    exported = export(parse(MODEL), {"w": np.full((4, 3), 1.2, "f"), "sw": np.full(3, 0.1, "f")})
    assert (exported.graph.initializers["w"].const_value.numpy() == 12).all()


def test_products_of_whole_numbers() -> None:
    """What a dynamic model multiplies cannot be trained, all else can."""
    one = step(parse(DYNAMIC), "mse", "sgd", quantized="straight-through")
    assert interface(one).parameters == ["b"]
    with pytest.raises(UnsupportedError) as caught:
        step(parse(DYNAMIC), "mse", "sgd", "w", quantized="straight-through")
    assert str(caught.value) == (
        "trainable= has 'w', which fits 'w', INT8[4,3], that node 'MatMulInteger' (MatMulInteger) "
        "reads: of whole numbers, those are trained that DequantizeLinear reads. Quantise the "
        "model in the form of QuantizeLinear and DequantizeLinear, or train other tensors."
    )


def test_a_quantised_model_that_is_not_said_to_be_one() -> None:
    with pytest.raises(ArgumentError) as caught:
        step(parse(MODEL), "mse", "sgd")
    assert str(caught.value) == (
        "The loss depends on no float tensor of model 'model' that could be trained. Name some "
        "with trainable=, or make inputs initializers. Of a quantised model, say "
        "quantized='straight-through' (--quantized straight-through)."
    )


def test_a_model_that_does_not_round_is_told_of() -> None:
    model = parse("(float[N,2] x) => (float[N,2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    with pytest.warns(WhilebackWarning) as warned:
        step(model, "mse", "sgd", quantized="straight-through")
    assert [str(each.message) for each in warned] == [
        "quantized= (--quantized) changes nothing: the model has no operator that rounds, such as "
        "QuantizeLinear."
    ]

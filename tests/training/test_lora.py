"""Low-rank adapters: what they change, what is trained, and what is left once they are merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile
from whileback.errors import ArgumentError, GraphError
from whileback.graph.scopes import walk
from whileback.training import interface, lora, merge, step

X = "float[4,6] x"
MODELS = {
    "MatMul": (X, "float[6,5] w", "y = MatMul(x, w)"),
    "MatMul from the left": (X, "float[3,4] w", "y = MatMul(w, x)"),
    "MatMul of batches": ("float[2,4,6] x", "float[6,5] w", "y = MatMul(x, w)"),
    "MatMul of a turned weight": (X, "float[5,6] w", "t = Transpose(w) y = MatMul(x, t)"),
    "turned from the left": (
        X,
        "float[4,3] w",
        "t = Transpose<perm = [1, 0]>(w) y = MatMul(t, x)",
    ),
    "Gemm of a turned weight": (X, "float[6,5] w", "t = Transpose(w) y = Gemm<transB = 1>(x, t)"),
    "Gemm": (X, "float[6,5] w", "y = Gemm<alpha = 0.5, beta = 2.0>(x, w, c)"),
    "Gemm transB": (X, "float[5,6] w", "y = Gemm<transB = 1>(x, w)"),
    "Gemm transA": (X, "float[4,5] w", "y = Gemm<transA = 1, alpha = 3.0>(x, w)"),
    "Gemm both": (X, "float[5,4] w", "y = Gemm<transA = 1, transB = 1>(x, w)"),
    "two readers": (X, "float[6,6] w", "a = MatMul(x, w) y = MatMul(a, w)"),
    "Conv": ("float[1,4,7] x", "float[6,4,3] w", "y = Conv<pads = [1, 1], strides = [2]>(x, w)"),
    "Conv 1x1": ("float[1,4,3,3] x", "float[6,4,1,1] w", "y = Conv(x, w)"),
    "Conv in groups": (
        "float[2,4,8,8] x",
        "float[6,2,3,2] w",
        "y = Conv<group = 2, dilations = [2, 1], kernel_shape = [3, 2]>(x, w)",
    ),
    "depthwise": ("float[2,4,5,5] x", "float[4,1,3,3] w", "y = Conv<group = 4>(x, w)"),
    "loop": (
        X,
        "float[6,6] w",
        """n = Constant<value_int = 3>()
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[4,6] u)
        => (bool d, float[4,6] v) { d = Identity(c) a = MatMul(u, w) v = Sin(a) }>""",
    ),
}
# Weights that a body holds: as an initializer, and as a constant.
INSIDE = [
    """(float[4,6] x, bool q) => (float[4,6] y) { y = If(q) <
        then_branch = t () => (float[4,6] p) <float[6,6] w = {ONES}> { p = MatMul(x, w) },
        else_branch = e () => (float[4,6] r) { r = Identity(x) }> }""",
    """(float[4,6] x, bool q) => (float[4,6] y) { y = If(q) <
        then_branch = t () => (float[4,6] p) {
            w = Constant<value = float[6,6] {ONES}>() p = MatMul(x, w) },
        else_branch = e () => (float[4,6] r) { r = Identity(x) }> }""",
]


def made(kind: str, opset: int = 21) -> ir.Model:
    x, w, body = MODELS[kind]
    model = parse(f"({x}, {w}, float[5] c) => (y) {{ {body} }}", opset)
    random = np.random.default_rng(0)
    for value in list(model.graph.inputs)[1:]:
        assert value.shape is not None
        data = random.normal(size=value.shape.numpy()).astype("f")
        value.const_value = ir.tensor(data, name=value.name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def point(model: ir.Model) -> dict[str, np.ndarray]:
    (x,) = model.graph.inputs
    assert x.shape is not None
    return {"x": np.random.default_rng(1).normal(size=x.shape.numpy()).astype("f")}


def with_values(model: ir.Model, **parameters: Any) -> ir.Model:
    result = model.clone()
    for name, data in parameters.items():
        result.graph.initializers[name].const_value = ir.tensor(data, name=name)
    return result


def interface_of(model: ir.Model) -> tuple[Any, ...]:
    """Return the names of everything that a model has, types of what goes in and comes out."""
    f = compile(model)
    nodes = [(n.name, n.op_type, [v.name for v in n.outputs]) for n in walk(model.graph)]
    return f.inputs, f.outputs, sorted(model.graph.initializers), nodes


@pytest.mark.parametrize("kind", MODELS)
def test_adapters(kind: str) -> None:
    """Nothing changes at first; then all that does is what the merged weight does alone."""
    model = made(kind)
    adapted, feeds = lora(model, "w", rank=2, alpha=3.0), point(model)
    np.testing.assert_array_equal(compile(adapted)(feeds)["y"], compile(model)(feeds)["y"])
    shape = adapted.graph.initializers["w_lora_b"].const_value.shape.numpy()
    b = np.random.default_rng(2).normal(size=shape).astype("f")
    changed = compile(with_values(adapted, w_lora_b=b))(feeds)["y"]
    merged = merge(adapted, {"w_lora_b": b})
    np.testing.assert_allclose(compile(merged)(feeds)["y"], changed, rtol=1e-4, atol=1e-4)
    assert np.abs(changed - compile(model)(feeds)["y"]).max() > 0.1
    assert interface_of(merged) == interface_of(model)
    assert merged.graph.initializers["w"].const_value.numpy().shape == tuple(
        model.graph.initializers["w"].shape.numpy()
    )


@pytest.mark.parametrize("kind", ["Gemm transB", "Conv in groups"])
def test_the_change_has_the_rank(kind: str) -> None:
    model = made(kind)
    adapted = lora(model, rank=1)
    shape = adapted.graph.initializers["w_lora_b"].const_value.shape.numpy()
    merged = merge(adapted, {"w_lora_b": np.ones(shape, "f")})
    before, after = (m.graph.initializers["w"].const_value.numpy() for m in (model, merged))
    groups = 2 if "groups" in kind else 1
    for part in np.split(after - before, groups):
        assert np.linalg.matrix_rank(part.reshape(len(part), -1), tol=1e-3) == 1


def test_a_gemm_of_old() -> None:
    """Before opset 11, it has to have something to add."""
    model = made("Gemm", opset=9)
    adapted = lora(model, "w")
    x = point(model)
    np.testing.assert_array_equal(compile(adapted)(x)["y"], compile(model)(x)["y"])


@pytest.mark.parametrize("text", INSIDE)
def test_weights_of_a_branch(text: str) -> None:
    model = parse(text.replace("ONES", ",".join(["0.5"] * 36)))
    adapted = lora(model, rank=1)
    assert {"w_lora_a", "w_lora_b"} <= set(adapted.graph.initializers)
    assert interface(step(adapted, "mse", "sgd")).parameters == ["w_lora_a", "w_lora_b"]
    feeds = {"x": np.random.default_rng(0).normal(size=(4, 6)).astype("f"), "q": True}
    b = {"w_lora_b": np.ones((1, 6), "f")}
    merged = merge(adapted, b)
    expected = compile(with_values(adapted, **b))(feeds)["y"]
    np.testing.assert_allclose(compile(merged)(feeds)["y"], expected, rtol=1e-5, atol=1e-6)
    assert interface_of(merged) == interface_of(model)


def test_training_adapters() -> None:
    """A rotation is a change of rank 2, and is learnt; the weight itself stays."""
    model = parse(
        "(float[N,3] x) => (float[N,3] y) <float[3,3] w = {1,0,0, 0,1,0, 0,0,1}> "
        "{ y = MatMul(x, w) }"
    )
    adapted = lora(model, rank=2)
    one = step(adapted, "mse", "adam")
    assert interface(one).parameters == ["w_lora_a", "w_lora_b"]
    f, kept = compile(one), {}
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("f")
    turned = np.stack([x[:, 1], -x[:, 0], x[:, 2]], axis=1)
    for _ in range(200):
        out = f(kept, x=x, label=turned, learning_rate=0.05)
        kept = {
            name: out[f"{name}_next"]
            for name in (*interface(one).parameters, *interface(one).state)
        }
    assert out["loss"] < 1e-3
    parameters = {name: kept[name] for name in interface(one).parameters}
    merged = merge(adapted, parameters)
    np.testing.assert_allclose(compile(merged)(x=x)["y"], turned, atol=0.1)


def test_what_else_is_trained() -> None:
    model = made("Gemm")
    one = step(lora(model), "mse", "sgd", ["*_lora_*", "c"])
    assert interface(one).parameters == ["c", "w_lora_a", "w_lora_b"]


def test_weights_of_16_bits() -> None:
    """They stay as they are; adapters are FLOAT, and so can be trained."""
    model = parse(
        "(float16[N,2] x) => (float16[N,2] y) <float16[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
    )
    adapted = lora(model, rank=1)
    x = np.array([[1, 2]], np.float16)
    np.testing.assert_array_equal(compile(adapted)(x=x)["y"], compile(model)(x=x)["y"])
    out = compile(step(adapted, "mse", "sgd"))(x=x, label=x, learning_rate=1.0)
    assert out["w_lora_b_next"].dtype == np.float32
    assert out["w_lora_b_next"].any()
    merged = merge(adapted, {"w_lora_b": np.ones((1, 2), "f")})
    assert merged.graph.initializers["w"].const_value.dtype == ir.DataType.FLOAT16


def test_the_model_stays_as_it_is() -> None:
    model = made("Gemm")
    before = ir.to_proto(model).SerializeToString()
    adapted = lora(model)
    between = ir.to_proto(adapted).SerializeToString()
    merge(adapted, {"w_lora_b": np.ones((8, 5), "f")})
    assert ir.to_proto(model).SerializeToString() == before
    assert ir.to_proto(adapted).SerializeToString() == between


TIED = "(int64[N] i) => (float[N,9] y) <float[9,4] t = {T}, float[4,4] w = {W}> { " + (
    "e = Gather(t, i) h = MatMul(e, w) y = Gemm<transB = 1>(h, t) }"
)


def test_what_else_reads_a_weight() -> None:
    """A table of embeddings that is the last weight as well would change at both places."""
    model = parse(
        TIED.replace("T}", ",".join(["1"] * 36) + "}").replace("W}", ",".join(["1"] * 16) + "}")
    )
    assert interface(step(lora(model), "mse", "sgd")).parameters == ["w_lora_a", "w_lora_b"]
    with pytest.raises(ArgumentError) as caught:
        lora(model, "t")
    assert str(caught.value) == (
        "patterns= has 't', which fits none of the names of weights that only MatMul, Gemm and "
        "Conv read; there are 1: 'w'"
    )


@pytest.mark.parametrize(
    "body",
    [
        "y = Gemm(x, w, w)",
        "y = MatMul(w, w)",
        "t = Transpose(w) s = Add(t, x) y = MatMul(s, t)",
        "t = Transpose(w) s = MatMul(x, t) y = MatMul(s, w)",
    ],
)
def test_weights_that_are_read_in_two_ways(body: str) -> None:
    values = ", ".join(["1"] * 16)
    model = parse(f"(float[4,4] x) => (float[4,4] y) <float[4,4] w = {{{values}}}> {{ {body} }}")
    with pytest.raises(ArgumentError, match="fits none of the names of weights"):
        lora(model)


def test_wrong_arguments() -> None:
    model = made("MatMul")
    adapted = lora(model)
    for call, message in (
        (lambda: lora(model, rank=0), "rank=0 is no number of rows. Give a whole one from 1."),
        (
            lambda: lora(model, alpha=float("nan")),
            "alpha=nan is no factor. Give a finite number above 0.",
        ),
        (
            lambda: lora(model, []),
            "patterns= is empty. Give patterns of the names of weights, or '*'.",
        ),
        (lambda: lora(model, seed=-1), "seed=-1 is no seed. Give a whole number from 0."),
        (
            lambda: lora("model.onnx"),  # type: ignore[arg-type]
            "model= is 'str', but adapters are those of an onnx_ir.Model. Read a file with "
            "whileback.load(path), a ModelProto with onnx_ir.from_proto(model).",
        ),
        (
            lambda: lora(adapted),
            "Model 'model' has adapters already. Merge them, or start from the model without.",
        ),
        (
            lambda: merge(model),
            "Model 'model' has no adapters to merge. Give a model of lora(), with parameters= for "
            "what was trained.",
        ),
        (
            lambda: merge(adapted, {"w_lora_c": np.ones(1)}),
            "Model 'model' holds no tensor 'w_lora_c'; did you mean 'w_lora_b' or 'w_lora_a'?",
        ),
        (
            lambda: merge(adapted, {"w_lora_b": np.ones(3)}),
            "'w_lora_b' is float32[8, 5] in the model, but float64[3] here. Give what a step of "
            "this model has trained.",
        ),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == message


def test_a_model_that_reads_what_nothing_defines() -> None:
    text = "(float[4,6] x) => (float[4,6] y) { z = Sin(x) y = Add(z, none) }"
    with pytest.raises(GraphError) as error:
        lora(parse(text))
    assert str(error.value) == (
        "Node 'y' (Add) reads 'none', which nothing before it defines. Define it, and put nodes "
        "behind those that they read."
    )

"""`jvp` and `hvp`: which inputs and outputs they add, what they refuse, second derivatives."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from tests.golden.models import MODELS
from tests.judge import parse
from tests.judge_forward import assert_tangents

from whileback.engines import compile
from whileback.errors import ArgumentError, NoGradientError, WhilebackWarning
from whileback.gradient import gradient, hvp, jvp, names, rule, vjp
from whileback.graph.scopes import is_standard, walk

PRODUCT = "(float[2] x, float[2] w) => (float[2] y) { h = Mul(x, w) y = Sin(h) }"
SIZES = {"convolution": {"x": np.ones((1, 2, 3, 4), "f"), "y_grad": np.ones((1, 4, 3, 4), "f")}}
SMOOTH = [name for name in MODELS if name not in ("broadcast_unknown", "loop_newton")]


def inputs(model: ir.Model) -> list[str]:
    return [str(value.name) for value in model.graph.inputs]


def outputs(model: ir.Model) -> list[str]:
    return [str(value.name) for value in model.graph.outputs]


def test_inputs_and_outputs_of_a_jvp() -> None:
    pushed = jvp(parse(PRODUCT), ["h", "y"], ["w", "x"])
    assert inputs(pushed) == ["x", "w", "w_tangent", "x_tangent"]
    assert outputs(pushed) == ["y", "h", "h_tangent", "y_tangent"]
    assert names(pushed) == {
        "w": "w_tangent",
        "x": "x_tangent",
        "h": "h_tangent",
        "y": "y_tangent",
    }


def test_names_that_are_taken() -> None:
    model = "(float x, float x_tangent) => (float y_tangent) { y_tangent = Mul(x, x_tangent) }"
    pushed = jvp(parse(model), "y_tangent", "x")
    assert names(pushed) == {"x": "x_tangent_1", "y_tangent": "y_tangent_tangent"}


def test_an_initializer_becomes_an_input() -> None:
    pushed = jvp(parse("(float x) => (float y) <float w = {2.0}> { y = Mul(x, w) }"), "y", "w")
    assert inputs(pushed) == ["x", "w_tangent", "w"]
    assert compile(pushed)(x=3, w_tangent=5)["y_tangent"] == 15


def test_one_value_as_of_and_wrt() -> None:
    pushed = jvp(parse("(float x) => (float y) { y = Exp(x) }"), ["y", "x"], ["x", "y"])
    tangents = list(compile(pushed)(x=0, x_tangent=2, y_tangent=3).values())[-2:]
    assert tangents == [5, 2]


def test_what_depends_on_nothing_moved() -> None:
    message = r"^'u' depends on no value in wrt=: its tangent is zero everywhere\.$"
    with pytest.warns(WhilebackWarning, match=message):
        pushed = jvp(
            parse("(float[N] x, float[N] z) => (float[N] y, float[N] u) { y = Neg(x) u = Neg(z) }"),
            ["y", "u"],
            "x",
        )
    result = compile(pushed)(x=[1, 2], z=[3, 4], x_tangent=[5, 6])
    assert result["u_tangent"].tolist() == [0, 0]


def test_what_rounds() -> None:
    model = "(float[2] x) => (float[2] y) <float s = {0.5}> { q = QuantizeLinear(x, s) y = %s }"
    model = parse(model % "DequantizeLinear(q, s)")
    with pytest.raises(NoGradientError, match="operators that round"):
        jvp(model, "y", "x")
    pushed = jvp(model, "y", ["x", "s"], quantized="straight-through")
    result = compile(pushed)(x=[0.6, 1000], x_tangent=[3, 5], s_tangent=1)
    # Of 0.6 / 0.5, which is rounded to 1, in steps of 0.5; of 255 steps, where it is clipped.
    np.testing.assert_allclose(result["y_tangent"], [3 + 1 - 1.2, 255], rtol=1e-6)


def test_operators_without_a_rule() -> None:
    header = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]> m '
    model = parse(header + "(float x) => (float y) { y = my.F(x) }")
    with pytest.raises(NoGradientError, match=r"operators that have no rule:\n  my@1::F: node"):
        jvp(model, "y", "x")


def test_names_that_are_not_there() -> None:
    for call in (jvp, hvp):
        with pytest.raises(ArgumentError, match=r"^of= names 'z', but the main graph"):
            call(parse(PRODUCT), "z", "x")
        with pytest.raises(ArgumentError, match=r"^wrt= names 'z', but the main graph"):
            call(parse(PRODUCT), "y", "z")
    with pytest.raises(ArgumentError, match=r"^quantized='no' is unknown"):
        jvp(parse(PRODUCT), "y", "x", quantized="no")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^reduce='mean' is unknown"):
        hvp(parse(PRODUCT), "y", "x", reduce="mean")  # type: ignore[arg-type]


def test_inputs_and_outputs_of_a_hvp() -> None:
    pushed = hvp(parse(PRODUCT), "y", ["w", "x"], reduce="sum")
    assert inputs(pushed) == ["x", "w", "w_tangent", "x_tangent"]
    assert outputs(pushed) == ["y", "w_grad", "x_grad", "w_hvp", "x_hvp"]
    assert names(pushed) == {
        "w": "w_tangent",
        "x": "x_tangent",
        "w_grad": "w_hvp",
        "x_grad": "x_hvp",
    }


@pytest.mark.filterwarnings("ignore::whileback.errors.WhilebackWarning")
@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_of_recorded_models(name: str) -> None:
    text, of, wrt = MODELS[name]
    slopes = vjp(parse(text), of, wrt)
    assert_tangents(slopes, [names(slopes)[x] for x in wrt], wrt, SIZES.get(name))


@pytest.mark.parametrize("memory", ["keep", "recompute", "checkpoint"])
def test_second_derivatives_with_less_memory(memory: str) -> None:
    text, of, wrt = MODELS["loop_recurrent"]
    slopes = gradient(parse(text), of, wrt, reduce="sum", memory=memory)  # type: ignore[arg-type]
    assert_tangents(slopes, [names(slopes)[x] for x in wrt], wrt, {"M": 7})


def test_a_product_with_the_hessian() -> None:
    """x₀²·x₁ has the Hessian [[2·x₁, 2·x₀], [2·x₀, 0]]."""
    model = """(float[2] x) => (float y) {
      powers = Constant<value = float[2] {2.0, 1.0}>()
      p = Pow(x, powers)
      y = ReduceProd<keepdims = 0>(p)
    }"""
    result = compile(hvp(parse(model), "y", "x"))(x=[3, 5], x_tangent=[1, -2])
    assert result["x_grad"].tolist() == [30, 9]
    assert result["x_hvp"].tolist() == [10 - 12, 6]


def test_the_derivative_of_a_reverse_loop_goes_backward_only_once() -> None:
    """Forward over reverse: as many loops as the gradient has."""
    text, of, wrt = MODELS["loop_recurrent"]
    slopes = gradient(parse(text), of, wrt, reduce="sum")
    product = hvp(parse(text), of, wrt, reduce="sum")
    for op_type in ("Loop", "Scan"):
        before, after = (
            sum(is_standard(node, op_type) for node in walk(model.graph))
            for model in (slopes, product)
        )
        assert after == before == 1


def test_a_rule_of_ones_own() -> None:
    """Its vjp is transposed as that of every other one."""

    @rule("my.test::Cube")
    def cube(op, node, dy):  # type: ignore[no-untyped-def]
        """y = x³, so dx = 3·x²·dy."""
        (x,) = node.inputs
        return op.Mul(dy, op.Mul(op.Mul(x, x), 3.0))

    header = '<ir_version: 10, opset_import: ["" : 21, "my.test" : 1]> m '
    pushed = jvp(parse(header + "(float x) => (float y) { y = my.test.Cube(x) }"), "y", "x")
    assert [node.op_type for node in pushed.graph] == ["Cube", "Mul", "Mul", "Mul"]

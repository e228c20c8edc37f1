"""What `gradient` and `vjp` accept, refuse, and call things."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import ArgumentError, GraphError, NoGradientError, WhilebackWarning
from whileback.gradient import gradient, jvp, names, rule, vjp
from whileback.gradient.backward import GradientBuilder

LOSS = """(float[2] x, int64 n) => (float loss) <float[2] w = {3, 4}> {
  h = Mul(x, w)
  loss = ReduceSum<keepdims = 0>(h)
}"""
BODY = """(bool p, float x) => (float y) {
  [branch] y = If(p) <then_branch = t () => (float a) <float w = {2}> { a = Mul(x, w) },
    else_branch = e () => (float b) { inner = Exp(x) b = Neg(inner) }>
}"""


def outputs(model: object) -> list[str]:
    return [value.name for value in model.graph.outputs]  # type: ignore[attr-defined]


def test_outputs_are_the_models_then_of_then_gradients_in_call_order() -> None:
    result = vjp(parse(LOSS), of=["h"], wrt=["w", "x"])
    assert outputs(result) == ["loss", "h", "w_grad", "x_grad"]
    assert [v.name for v in result.graph.inputs] == ["x", "n", "h_grad", "w"]
    assert names(result) == {"h": "h_grad", "w": "w_grad", "x": "x_grad"}


def test_an_initializer_becomes_an_input_with_itself_as_default() -> None:
    run = compile(gradient(parse(LOSS), of="loss", wrt=["w", "x"]))
    assert run(x=[1.0, 2.0], n=0)["x_grad"].tolist() == [3.0, 4.0]
    assert run(x=[1.0, 2.0], n=0, w=[5.0, 6.0])["x_grad"].tolist() == [5.0, 6.0]


def test_an_intermediate_value_has_a_gradient_too() -> None:
    run = compile(gradient(parse(LOSS), of="loss", wrt=["h", "x"]))
    assert run(x=[1.0, 2.0], n=0)["h_grad"].tolist() == [1.0, 1.0]


def test_seeds_take_names_before_gradients() -> None:
    result = vjp(parse("(float x, float x_grad) => (float y) { y = Mul(x, x_grad) }"), "y", "x")
    assert outputs(result) == ["y", "x_grad_1"]
    again = vjp(parse("(float x) => (float y) { y = Mul(x, x) }"), of=["x"], wrt=["x"])
    assert [v.name for v in again.graph.inputs] == ["x", "x_grad"]
    assert outputs(again)[-1] == "x_grad_1"


def test_an_initializer_of_a_branch_is_called_by_its_address() -> None:
    result = vjp(parse(BODY), "y", ["branch/then_branch/w"])
    run = compile(result)
    assert run(p=True, x=3.0, y_grad=1.0)["branch/then_branch/w_grad"] == 3.0
    assert run(p=False, x=3.0, y_grad=1.0)["branch/then_branch/w_grad"] == 0.0


def test_several_scalars_are_added() -> None:
    model = parse("(float x) => (float y, float z) { y = Mul(x, x) z = Exp(x) }")
    got = compile(gradient(model, of=["y", "z"], wrt="x"))(x=1.0)["x_grad"]
    assert got == pytest.approx(2 + np.e)


def test_reduce_sum_differentiates_the_sum() -> None:
    run = compile(gradient(parse(LOSS), of="h", wrt="x", reduce="sum"))
    assert run(x=[1.0, 2.0], n=0)["x_grad"].tolist() == [3.0, 4.0]


def test_an_unreachable_value_gives_zeros_and_a_warning() -> None:
    model = parse("(float[2] x, float[3] u) => (float[2] y) { y = Neg(x) }")
    with pytest.warns(WhilebackWarning) as caught:
        result = vjp(model, "y", ["u"])
    assert [str(w.message) for w in caught] == [
        "No value in of= depends on 'u': its gradient is zero everywhere."
    ]
    zeros = compile(result)(x=np.ones(2, "f"), u=np.full(3, np.inf, "f"), y_grad=np.ones(2, "f"))
    assert zeros["u_grad"].tolist() == [0.0, 0.0, 0.0]


REFUSALS = [
    (
        {"of": "loss", "wrt": ["n"]},
        "wrt= names 'n', which is INT64[]: only FLOAT, DOUBLE, FLOAT16 and BFLOAT16 tensors have "
        "gradients. Name another value.",
    ),
    (
        {"of": "los", "wrt": ["x"]},
        "of= names 'los', but the main graph of model 'model' has no such value; "
        "did you mean 'loss'?",
    ),
    (
        {"of": "probability", "wrt": ["x"]},
        "of= names 'probability', but the main graph of model 'model' has no such value; "
        "there are 5: 'loss', 'x', 'n', …",
    ),
    ({"of": [], "wrt": ["x"]}, "of= is empty; name at least one value of the main graph."),
    ({"of": "loss", "wrt": ["x", "x"]}, "wrt= names 'x' more than once."),
    (
        {"of": "h", "wrt": ["x"]},
        "of= names 'h', which is FLOAT[2]: gradient() needs one element. Say reduce=\"sum\" "
        "(--reduce sum) to differentiate the sum of its elements, or use vjp() and pass the "
        "cotangent.",
    ),
    (
        {"of": "loss", "wrt": ["x"], "reduce": "mean"},
        "reduce='mean' is unknown; give reduce=\"sum\" or leave it out.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        gradient(parse(LOSS), **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_sizes_that_nobody_named_have_no_name_in_messages() -> None:
    model = parse("(float[N] x, bool[M] c) => (float[A] y) { z = Compress(x, c) y = Sin(z) }")
    with pytest.raises(ArgumentError, match=r"'z', which is FLOAT\[\?\]: gradient\(\) needs"):
        gradient(model, "z", "x")


def test_a_value_inside_a_subgraph_is_refused_with_what_to_do() -> None:
    with pytest.raises(ArgumentError) as caught:
        vjp(parse(BODY), "y", "inner")
    assert str(caught.value) == (
        "wrt= names 'inner', which is inside 'e' of node 'branch' (If): it has one value for each "
        "time that runs. Make it an output of that node (a scan output of a loop) and name that."
    )


def test_all_operators_without_a_rule_are_listed_at_once() -> None:
    model = parse(
        """<ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
        model (bool p, float x) => (float y) {
          [first] a = my.domain.Foo(x)
          [branch] y = If(p) <
            then_branch = t () => (float b) { [second] b = my.domain.Foo(a) },
            else_branch = e () => (float c) { [third] c = my.domain.Bar(a) }>
        }"""
    )
    with pytest.raises(NoGradientError) as caught:
        vjp(model, "y", "x")
    assert str(caught.value) == (
        "The gradient meets operators that have no rule:\n"
        "  my.domain@1::Bar: node 'branch/third'\n"
        "  my.domain@1::Foo: nodes 'first', 'branch/second'\n"
        'Register a rule for each with @whileback.rule("domain::Op"), or name other values in '
        "of= and wrt=, between which they do not lie. `whileback rules OP` tells more."
    )


def test_an_operator_of_a_domain_that_is_not_imported_has_no_version() -> None:
    with pytest.raises(NoGradientError) as caught:
        vjp(parse("(float x) => (float y) { y = my.domain.Foo(x) }"), "y", "x")
    assert str(caught.value).splitlines()[1] == "  my.domain::Foo: node 'Foo'"


def test_operators_off_the_way_need_no_rule() -> None:
    model = parse(
        """<ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
        model (float x) => (float y, float z) { y = Sin(x) z = my.domain.Unknown(x) }"""
    )
    assert outputs(vjp(model, "y", "x")) == ["y", "z", "x_grad"]


def test_a_rule_of_ones_own_and_one_that_returns_too_much() -> None:
    @rule("test.domain::Twice")
    def twice(op: GradientBuilder, node: object, dy: object) -> object:
        """y = 2·x, so dx = 2·dy."""
        return op.Mul(dy, 2.0)

    @rule("test.domain::Wrong")
    def wrong(op: GradientBuilder, node: object, dy: object) -> object:
        return dy, dy

    header = '<ir_version: 10, opset_import: ["": 21, "test.domain": 1]> '
    text = header + "model (float x) => (float y) { [n] y = test.domain.OP(x) }"
    result = vjp(parse(text.replace("OP", "Twice")), "y", "x")
    assert [n.op_type for n in result.graph] == ["Twice", "Mul"]
    with pytest.raises(ArgumentError) as caught:
        vjp(parse(text.replace("OP", "Wrong")), "y", "x")
    assert str(caught.value) == (
        "The rule for 'Wrong' returned 2 gradients for node 'n', which reads 1 values. "
        "Return one for each, in order."
    )
    with pytest.raises(ArgumentError) as caught:
        rule("test.domain::Twice")(wrong)
    assert str(caught.value) == (
        "Operator 'test.domain::Twice' has a rule already; an operator has exactly one. "
        "Give the new one another name or another domain."
    )


def test_a_value_used_twice_by_one_node_counts_twice() -> None:
    assert_gradient("(float[3] w) => (float[3] y) { y = Mul(w, w) }", ["y"], ["w"])


def test_a_scalar_of_shape_one_is_a_scalar() -> None:
    model = parse("(float[1,1] x) => (float[1,1] y) { y = Mul(x, x) }")
    assert compile(gradient(model, of="y", wrt="x"))(x=[[3.0]])["x_grad"].tolist() == [[6.0]]


@pytest.mark.parametrize("of", ["o", "p"])
def test_optionals_have_no_gradients_themselves(of: str) -> None:
    text = "(float x) => (float y, optional(float) p) "
    text += "{ o = Optional(x) y = OptionalGetElement(o) p = Optional(y) }"
    for argument, given in (("of", (of, "x")), ("wrt", ("y", of))):
        with pytest.raises(ArgumentError) as caught:
            vjp(parse(text), *given)
        assert str(caught.value) == (
            f"{argument}= names '{of}', which is Optional(Tensor(FLOAT)): only FLOAT, DOUBLE, "
            "FLOAT16 and BFLOAT16 tensors have gradients. Name another value."
        )


@pytest.mark.parametrize("names", [3, ["x", 3], None])
def test_names_are_text(names: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        vjp(parse(LOSS), "h", names)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"of= and wrt= take the name of a value, or a list of names, but got {names!r}."
    )


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        (
            "Tann",
            "ONNX has no operator 'Tann'; did you mean 'Tan' or 'Tanh' or 'Scan'? One of your own "
            "has a domain: 'my.domain::Op'.",
        ),
        (
            "a::b::c",
            "'a::b::c' names no operator; write 'Op', or 'my.domain::Op' for one of your own.",
        ),
    ],
)
def test_rules_are_for_operators_that_may_exist(identifier: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        rule(identifier)(lambda op, node, dy: dy)
    assert str(caught.value) == message


@pytest.mark.parametrize("derive", [vjp, jvp])
@pytest.mark.parametrize(
    ("text", "node", "said"),
    [
        (
            "(float[N] x) => (float[N] y) "
            "{ a = Constant<value_ints = [1]>() y = ReduceMean<keepdims = 0>(x, a) }",
            "'ReduceMean' (ai.onnx@21::ReduceMean)",
            "axis",
        ),
        (
            "(float[1,8,2,2] x, float[1,8,3] w, float[1,8,2] r) => (float[1,N,2] h) "
            "{ y, h = LSTM<hidden_size = 2>(x, w, r) }",
            "'LSTM' (ai.onnx@21::LSTM)",
            "rank 3",
        ),
    ],
)
def test_a_node_that_onnx_does_not_allow_is_blamed(
    derive: Callable[..., ir.Model], text: str, node: str, said: str
) -> None:
    model = parse(text)
    with pytest.raises(GraphError) as error:
        derive(model, str(model.graph.outputs[0].name), "x")
    assert node in str(error.value) and said in str(error.value)

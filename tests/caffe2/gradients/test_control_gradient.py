"""The gradients of single control operators, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.caffe2.gradients.interpreter import run
from tests.caffe2.gradients.nets import do, loop, make, net

from whileback.caffe2.gradients import (
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
    rewrite_forward,
)
from whileback.errors import ArgumentError, NetDefError, WhilebackError
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

SCOPE = make("CreateScope", "", "s")


def while_op(*body: OperatorDef, bound: Sequence[str] = ("y",), **args: int) -> OperatorDef:
    """The While around a Do, with all inputs and outputs that it has."""
    inside = do(net("body", *body), "s", bound, bound, **args)
    op = loop([inside], 2)[-1]
    op.input[:] = ["loop_go", *bound, "s"]
    op.output[:] = [*bound, "s"]
    return op


def refused(function: Callable[..., object], *args: object) -> str:
    """What an error says whose type is one of two."""
    with pytest.raises(WhilebackError) as caught:
        function(*args)
    assert type(caught.value) in (ArgumentError, NetDefError)
    return str(caught.value)


class TestWhile:
    def test_a_body_that_keeps_what_is_read(self) -> None:
        body = make("Scale", "y", "t", scale=2.0), make("Copy", "t", "y")
        ops, g_input = gen_while_gradient(while_op(*body), ["gy", None])
        assert [op.type for op in ops] == ["Copy", "HasScope", "While"]
        assert list(ops[0].input) == ["gy"]
        assert g_input == [None, "y_grad", None]

    def test_it_runs_after_what_rewrite_forward_gives(self) -> None:
        before = loop([], 2)[:-1]
        given = while_op(make("Mul", "y w", "y"), bound=("y", "w"), copy_external_blobs=1)
        forward = rewrite_forward(given)
        ops, g_input = gen_while_gradient(forward, ["gy", None, None])
        whole = net("n", SCOPE, *before, forward, *ops)
        feeds = {"y": np.array([3.0]), "w": np.array([2.0]), "gy": np.array([1.0])}
        found = run(whole, feeds, feeds)
        assert found["y"] == 12.0
        assert found[g_input[1]] == 4.0
        assert found[g_input[2]] == 2 * 2.0 * 3.0

    def test_a_rewritten_operator_stays_as_it_is(self) -> None:
        once = rewrite_forward(while_op(make("Tanh", "y", "y")))
        assert rewrite_forward(once) == once

    def test_a_gradient_given_twice_is_copied_first(self) -> None:
        body = make("Scale", "a", "a", scale=2.0), make("Scale", "b", "b", scale=3.0)
        op = while_op(*body, bound=("a", "b"))
        ops, g_input = gen_while_gradient(op, ["g", "g", None])
        assert [op.type for op in ops[:3]] == ["Copy", "Copy", "Copy"]
        assert [list(op.input) for op in ops[:3]] == [["g"], ["b_grad_1"], ["g"]]
        whole = net("n", SCOPE, *loop([], 2)[:-1], op, *ops)
        found = run(whole, {name: np.array([1.0]) for name in ("a", "b", "g")})
        assert (found[g_input[1]], found[g_input[2]], found["g"]) == (4.0, 9.0, 1.0)

    def test_a_condition_that_writes_what_is_differentiated(self) -> None:
        op = while_op(make("Scale", "y", "y", scale=3.0))
        condition = next(arg.n for arg in op.arg if arg.name == "cond_net")
        halves = net("test", make("Scale", "y", "y", scale=0.5), *condition.op)
        names = ["y", "loop_i", "loop_one", "loop_last", "loop_go"]
        inner = do(halves, "t", names, names)
        del condition.op[:]
        condition.op.append(inner)
        forward = rewrite_forward(op)
        ops, g_input = gen_while_gradient(forward, ["gy", None])
        scopes = [SCOPE, make("CreateScope", "", "t")]
        whole = net("n", *scopes, *loop([], 2)[:-1], forward, *ops)
        found = run(whole, {"y": np.array([1.0]), "gy": np.array([1.0])})
        assert found[g_input[1]] == found["y"] == 0.5 * (3 * 0.5) ** 2

    def test_another_operator(self) -> None:
        assert refused(gen_while_gradient, make("Tanh", "x", "y"), ["gy"]) == (
            "Tanh (writes 'y') is no While operator."
        )

    def test_no_inputs(self) -> None:
        op = make("While", "", "y", loop_net=net("b"))
        assert refused(gen_while_gradient, op, ["gy"]) == (
            "While (writes 'y') needs 1 or more inputs, but has 0: []. Correct the net."
        )

    def test_gradients_that_do_not_match_the_outputs(self) -> None:
        op = while_op(make("Tanh", "y", "y"))
        assert refused(gen_while_gradient, op, ["gy"]) == (
            "While (writes 'y') has 2 outputs, but was given 1 gradients. Give one for each, None "
            "where there is none."
        )
        assert refused(gen_while_gradient, op, [None, None]) == (
            "While (writes 'y') was given no gradient of any of its outputs, 'y', 's'."
        )

    def test_no_loop_net(self) -> None:
        assert refused(gen_while_gradient, make("While", "c", "y"), ["gy"]) == (
            "While (writes 'y') needs the argument 'loop_net', a net."
        )

    @pytest.mark.parametrize(
        ("ops", "said"), [([], "nothing"), ([make("Tanh", "y", "y")] * 2, "'Tanh', 'Tanh'")]
    )
    def test_a_body_that_is_no_single_do(self, ops: list[OperatorDef], said: str) -> None:
        op = make("While", "c y", "y", loop_net=net("b", *ops))
        assert refused(gen_while_gradient, op, ["gy"]) == (
            "While (writes 'y') needs a single Do as its body, which leaves its blobs to the "
            f"gradient; 'loop_net' has {said}. Put these into the net of a Do, or differentiate "
            "the whole net with add_gradient_operators, which does so."
        )

    def test_a_body_that_uses_its_workspace_again(self) -> None:
        op = while_op(make("Tanh", "y", "y"), reuse_workspace=1)
        assert refused(gen_while_gradient, op, ["gy", None]) == (
            "While (writes 'y') has a body that uses one workspace again and again "
            "('reuse_workspace'), but the gradient needs that of each trip. Differentiate the "
            "whole net with add_gradient_operators, which makes one for each."
        )

    def test_a_body_without_outputs(self) -> None:
        inside = make("Do", "y s", net=net("b", make("Tanh", "y", "y")))
        op = make("While", "c y", "y", loop_net=net("l", inside))
        assert refused(gen_while_gradient, op, ["gy"]) == (
            "Do needs 1 or more outputs, but has 0: []. Correct the net."
        )

    def test_a_body_without_a_net(self) -> None:
        op = make("While", "c y", "y", loop_net=net("l", make("Do", "y s", "y s")))
        assert refused(gen_while_gradient, op, ["gy"]) == (
            "Do (writes 'y') needs the argument 'net', a net."
        )

    def test_a_body_without_a_gradient(self) -> None:
        op = while_op(make("Tanh", "y", "t"))
        assert refused(gen_while_gradient, op, ["gy", None]) == (
            "While (writes 'y') has no gradient net for its body: of the blobs whose gradient is "
            "given it writes none that depends on floats."
        )

    def test_a_body_that_keeps_too_little(self) -> None:
        op = while_op(make("Tanh", "y", "y"), copy_external_blobs=1)
        assert refused(gen_while_gradient, op, ["gy", None]) == (
            "While (writes 'y') does not keep all that its gradient reads. Put what "
            "rewrite_forward(op) returns in its place, and differentiate that. It differs in this: "
            "Do (writes 'y') loses 'copy_external_blobs', which keeps what blobs hold after the "
            "operator and makes a second run of the gradient fail. Blob 'y' is copied to 'y_kept' "
            "after Tanh (writes 'y'), since the gradient reads it when it has been overwritten."
        )

    def test_a_condition_outside_of_a_do(self) -> None:
        op = while_op(make("Tanh", "y", "y"))
        condition = next(arg.n for arg in op.arg if arg.name == "cond_net")
        condition.op.append(make("Sigmoid", "y", "y"))
        assert refused(rewrite_forward, op) == (
            "While (writes 'y') needs a single Do as its 'cond_net', with a scope that nothing "
            "else uses, so that its gradient finds what it leaves behind. Differentiate the whole "
            "net with add_gradient_operators, which makes one."
        )


class TestIf:
    @staticmethod
    def if_op(*ops: OperatorDef, condition: str = "c") -> OperatorDef:
        then = do(net("branch", *ops), "s", ["x", "y"], ["y"])
        return make("If", f"{condition} x y s", "y s", then_net=net("then", then))

    @pytest.mark.parametrize("taken", [True, False])
    def test_what_is_left_alone_keeps_its_gradient(self, taken: bool) -> None:
        op = rewrite_forward(self.if_op(make("Mul", "x x", "y")))
        ops, g_input = gen_if_gradient(op, ["gy", None])
        assert g_input == [None, "x_grad", "y_grad", None]
        feeds = {"x": np.array([3.0]), "y": np.array([1.0]), "gy": np.array([5.0])}
        found = run(net("n", SCOPE, op, *ops), feeds | {"c": np.array([taken])})
        expected = (30.0, 0.0) if taken else (0.0, 5.0)
        assert (found["x_grad"], found["y_grad"]) == expected

    def test_a_plain_branch(self) -> None:
        op = make("If", "c x", "y", then_net=net("then", make("Tanh", "x", "y")))
        assert refused(gen_if_gradient, op, ["gy"]) == (
            "If (writes 'y') needs a single Do as its 'then_net', with a scope that nothing else "
            "uses, so that its gradient finds what it leaves behind. Differentiate the whole net "
            "with add_gradient_operators, which makes one."
        )

    def test_a_condition_that_the_branch_overwrites(self) -> None:
        op = self.if_op(make("Mul", "x x", "y"), make("GT", "x y", "c"))
        inside = next(arg.n for arg in op.arg if arg.name == "then_net").op[0]
        inside.CopyFrom(do(next(arg.n for arg in inside.arg if arg.name == "net"), "s", "xc", "yc"))
        assert refused(gen_if_gradient, op, ["gy", None]) == (
            "If (writes 'y') overwrites 'c', whose value before it the gradient reads. Copy it to "
            "another blob before the operator, and let the operator read that one."
        )

    def test_another_operator(self) -> None:
        assert refused(gen_if_gradient, make("Do", "s", "s"), [None]) == (
            "Do (writes 's') is no If operator."
        )


class TestDo:
    def test_in_the_workspace_that_it_left(self) -> None:
        op = do(net("body", make("Mul", "a a", "b")), "s", ["a=x"], ["b=y"])
        ops, g_input = gen_do_gradient(op, ["gy", None])
        assert g_input == ["x_grad", None]
        feeds = {"x": np.array([3.0]), "gy": np.array([1.0])}
        found = run(net("n", SCOPE, op, *ops), feeds, feeds)
        assert found["x_grad"] == 6.0

    def test_no_operator_where_no_gradient_flows(self) -> None:
        op = do(net("body", make("StopGradient", "x", "y")), "s", ["x"], ["y"])
        assert gen_do_gradient(op, ["gy", None]) == ([], [None, None])


def test_only_control_operators_are_rewritten() -> None:
    assert refused(rewrite_forward, make("Tanh", "x", "y")) == (
        "Tanh (writes 'y') is no While, If or Do."
    )


def test_the_operator_is_not_changed() -> None:
    op = while_op(make("Tanh", "y", "y"))
    before = op.SerializeToString()
    gen_while_gradient(rewrite_forward(op), ["gy", None])
    assert op.SerializeToString() == before

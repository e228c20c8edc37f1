"""What add_gradient_operators takes, emits, calls things and refuses."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.gradients.interpreter import run
from tests.caffe2.gradients.nets import do, loop, make, net, number

from whileback.caffe2.gradients import add_gradient_operators
from whileback.caffe2.operators.registry import Slices
from whileback.errors import ArgumentError, NoGradientError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef


def types(result: NetDef) -> list[str]:
    return [op.type for op in result.op]


def written(result: NetDef) -> list[str]:
    return [name for op in result.op for name in op.output]


class TestNames:
    def test_a_gradient_is_called_after_its_blob(self) -> None:
        result, gradients = add_gradient_operators(net("n", make("Tanh", "x", "y")), ["y"])
        assert gradients == {"x": "x_grad", "y": "y_autogen_grad"}
        assert types(result) == ["Tanh", "ConstantFill", "TanhGradient"]

    def test_the_sum_has_the_name_and_not_its_parts(self) -> None:
        ops = make("Tanh", "x", "a"), make("Sigmoid", "x", "b"), make("Add", "a b", "y")
        result, gradients = add_gradient_operators(net("n", *ops), ["y"])
        assert gradients["x"] == "x_grad"
        assert result.op[-1].type == "Sum"
        assert list(result.op[-1].input) == ["x_grad_1", "x_grad_2"]

    @pytest.mark.parametrize("taken", ["x_grad", "y_autogen_grad"])
    def test_a_blob_of_the_net_keeps_its_name(self, taken: str) -> None:
        ops = make("Tanh", "x", "y"), make("Negative", "x", taken)
        result, gradients = add_gradient_operators(net("n", *ops), ["y"])
        assert f"{taken}_1" in gradients.values()
        assert written(result).count(taken) == 1

    @pytest.mark.parametrize("seed", ["x_grad", "y_grad", "gy"])
    def test_a_given_gradient_is_only_read(self, seed: str) -> None:
        body = [make("Tanh", "y", "y")]
        ops = [make("Copy", "x", "y"), *loop(body, 2)]
        result, gradients = add_gradient_operators(net("n", *ops), {"y": seed})
        assert seed not in written(result)
        assert gradients["x"] != seed

    def test_blobs_inside_branches_keep_their_names(self) -> None:
        inside = net("t", make("Copy", "x", "x_grad"), make("Mul", "x_grad x", "y"))
        result, gradients = add_gradient_operators(
            net("n", make("If", "c", "y", then_net=inside), inputs="c x y"), ["y"]
        )
        feeds = {"c": np.array([True]), "x": np.array([3.0]), "y": np.array([0.0])}
        assert gradients["x"] != "x_grad"
        assert run(result, feeds)[gradients["x"]] == 6.0


class TestVersions:
    twice = net("n", make("Tanh", "x", "y"), make("Scale", "y", "y", scale=2.0), inputs="x")

    def test_later_versions_are_told_apart_by_number(self) -> None:
        gradients = add_gradient_operators(self.twice, {"y": "seed"})[1]
        assert gradients == {"x": "x_grad", "y": "y_grad", "y@2": "seed"}

    def test_a_blob_that_was_there_before_is_version_0(self) -> None:
        given = net("n", make("Tanh", "x", "x"), inputs="x")
        gradients = add_gradient_operators(given, {"x": "seed"})[1]
        assert gradients == {"x": "x_grad", "x@1": "seed"}

    def test_a_blob_that_a_branch_may_leave_alone_was_there_before(self) -> None:
        """Its first version is what it held, which the gradient reaches if it stays so."""
        branch = make("If", "c", then_net=net("t", make("Tanh", "x", "y")))
        result, gradients = add_gradient_operators(net("n", branch), {"y": "seed"})
        feeds = {"x": np.array([0.5]), "y": np.array([1.0]), "seed": np.array([2.0])}
        for taken in (True, False):
            found = run(result, feeds | {"c": np.array([taken])})
            assert found[gradients["y"]] == (0.0 if taken else 2.0)

    def test_an_earlier_version_is_differentiated(self) -> None:
        result, gradients = add_gradient_operators(self.twice, ["y@1"], wrt=["x"])
        slope = 1 - np.tanh(0.5) ** 2
        assert run(result, {"x": np.array([0.5])})[gradients["x"]] == pytest.approx(slope)

    def test_gradients_of_named_versions(self) -> None:
        _, gradients = add_gradient_operators(self.twice, {"y": "seed"}, wrt=["y@1", "y@2"])
        assert gradients == {"y@1": "y_grad", "y@2": "seed"}

    def test_several_gradients_of_one_blob_are_added(self) -> None:
        ops = make("Scale", "x", "z", scale=2.0), make("Scale", "z", "y", scale=3.0)
        result, gradients = add_gradient_operators(net("n", *ops), {"y": "gy", "z": "gz"})
        feeds = {"x": np.array([1.0]), "gy": np.array([1.0]), "gz": np.array([1.0])}
        assert run(result, feeds)[gradients["x"]] == 8.0


class TestWhatIsAskedFor:
    ops = (
        make("Tanh", "x", "a"),
        make("Mul", "a w", "b"),
        make("Sigmoid", "v", "c"),
        make("Mul", "b c", "y"),
    )

    def test_nothing_else_is_emitted(self) -> None:
        result, gradients = add_gradient_operators(net("n", *self.ops), {"y": "gy"}, wrt=["w"])
        assert gradients == {"w": "w_grad"}
        assert types(result)[4:] == ["MulGradient", "MulGradient"]

    def test_zeros_where_nothing_depends_on_it(self) -> None:
        alone = net("n", *self.ops, inputs="x w v u", outputs="y")
        result, gradients = add_gradient_operators(alone, {"y": "gy"}, wrt=["u", "x"])
        assert types(result)[-1] == "ConstantFill"
        feeds = {name: np.full([2], 0.5) for name in ("x", "w", "v", "u", "gy")}
        np.testing.assert_array_equal(run(result, feeds)[gradients["u"]], [0.0, 0.0])

    def test_an_operator_without_a_gradient_off_the_way_does_not_matter(self) -> None:
        ops = make("Tanh", "x", "y"), make("Unknown", "v", "y2"), make("Mul", "y y2", "z")
        _, gradients = add_gradient_operators(net("n", *ops), {"z": "gz"}, wrt=["x"])
        assert gradients == {"x": "x_grad"}

    def test_a_single_name_is_a_list_of_one(self) -> None:
        _, gradients = add_gradient_operators(net("n", *self.ops), "y", wrt="w")
        assert gradients == {"w": "w_grad"}

    def test_the_net_is_not_changed(self) -> None:
        given = net("n", *loop([make("Mul", "y w", "y")], 2), inputs="y w")
        before = given.SerializeToString()
        add_gradient_operators(given, ["y"])
        assert given.SerializeToString() == before

    def test_a_net_that_lists_its_blobs_lists_the_new_ones(self) -> None:
        given = net("n", *self.ops, inputs="x w v", outputs="y")
        result, _ = add_gradient_operators(given, {"y": "gy"})
        assert list(result.external_input) == ["x", "w", "v", "gy"]
        assert list(result.external_output) == ["y", "x_grad", "w_grad", "v_grad"]
        result, _ = add_gradient_operators(given, {"y": "gy"}, wrt=["a"])
        assert list(result.external_output) == ["y", "a_grad"]

    def test_gradient_operators_run_where_their_operator_does(self) -> None:
        op = make("Tanh", "x", "y")
        op.device_option.device_type = 1
        result, _ = add_gradient_operators(net("n", op), {"y": "gy"})
        assert result.op[1].device_option.device_type == 1


class TestTypes:
    def test_seeds_and_zeros_are_of_the_type_of_their_blob(self) -> None:
        ops = make("Cast", "x", "d", to=13), make("Mul", "d d", "y"), make("Negative", "d", "u")
        result, _ = add_gradient_operators(net("n", *ops), ["y"], wrt=["d", "u"])
        fills = [op for op in result.op if op.type == "ConstantFill"]
        assert [{arg.name: arg.i for arg in op.arg}["dtype"] for op in fills] == [13, 13]

    def test_a_cast_gives_back_the_type_it_came_from(self) -> None:
        ops = make("Cast", "x", "d", to="double"), make("Cast", "d", "f", to="float")
        result, _ = add_gradient_operators(net("n", *ops), {"f": "gf"}, wrt=["d"])
        assert {arg.name: arg.i for arg in result.op[-1].arg} == {"to": 13, "from_type": 1}

    def test_a_cast_of_unknown_numbers_is_taken_for_one_of_integers(self) -> None:
        body = [make("Cast", "loop_i", "t", to=1), make("Mul", "y t", "y")]
        ops = [op for op in loop(body, 3) if list(op.output) != ["loop_i"]]
        given = net("n", *ops, make("Copy", "loop_i", "i"), inputs="y loop_i")
        gradients = add_gradient_operators(given, {"y": "gy"})[1]
        assert gradients.assumed == (
            "Cast (writes 't') is taken for a cast of integers, which have no gradient: it has no "
            "'from_type', and the type of 'loop_i' is not known.",
        )
        assert "loop_i" not in gradients
        assert add_gradient_operators(given, {"y": "gy"}, wrt=["y"])[1].assumed == ()

    def test_a_cast_that_says_what_it_casts_from(self) -> None:
        given = net("n", make("Cast", "x", "y", to=1, from_type=1))
        gradients = add_gradient_operators(given, ["y"])[1]
        assert gradients.assumed == ()
        assert "x" in gradients


class TestSparse:
    gather = make("Gather", "W i", "a")

    def test_rows_and_their_places(self) -> None:
        gradients = add_gradient_operators(net("n", self.gather), {"a": "ga"})[1]
        assert gradients["W"] == Slices("i", "ga")

    def test_places_that_are_overwritten_are_kept(self) -> None:
        ops = self.gather, make("Copy", "j", "i")
        result, gradients = add_gradient_operators(net("n", *ops), {"a": "ga"})
        assert gradients["W"] == Slices("i_kept", "ga")
        assert types(result) == ["Copy", "Gather", "Copy"]
        assert gradients.rewritten == (
            "Blob 'i' is copied to 'i_kept' at the start of net 'n', since the gradient reads it "
            "when it has been overwritten.",
        )

    def test_several_are_joined(self) -> None:
        ops = self.gather, make("Gather", "W j", "b"), make("Add", "a b", "y")
        result, gradients = add_gradient_operators(net("n", *ops), {"y": "gy"})
        assert types(result)[-2:] == ["Concat", "Concat"]
        assert gradients["W"] == Slices("W_grad_indices", "W_grad_values")

    @pytest.mark.parametrize("dense", [False, True])
    def test_dense_if_it_must_be_or_shall_be(self, dense: bool) -> None:
        ops = [self.gather, make("Gather", "W j", "b"), make("Mul", "a b", "y")]
        if not dense:
            ops.append(make("Negative", "W", "V"))
        ys = {"y": "gy"} if dense else {"y": "gy", "V": "gV"}
        result, gradients = add_gradient_operators(net("n", *ops), ys, dense=dense)
        W = np.arange(6.0).reshape(3, 2)
        feeds = {"W": W, "i": np.array([0, 2]), "j": np.array([0, 1]), "gy": np.ones((2, 2))}
        found = run(result, feeds | {"gV": np.ones((3, 2))})[gradients["W"]]
        expected = np.array([2 * W[0], W[2], W[1]]) - (0.0 if dense else 1.0)
        np.testing.assert_array_equal(found, expected)

    def test_dense_where_a_loop_adds_them(self) -> None:
        body = [make("Gather", "W i", "a"), make("Add", "s a", "s")]
        given = net("n", *loop(body, 3), inputs="W i s")
        result, gradients = add_gradient_operators(given, {"s": "gs"})
        feeds = {"W": np.ones((3, 2)), "i": np.array([2, 2]), "s": np.zeros((2, 2))}
        found = run(result, *[feeds | {"gs": np.ones((2, 2))}] * 2)
        np.testing.assert_array_equal(found[gradients["W"]], [[0, 0], [0, 0], [6, 6]])


class TestErrors:
    given = net("main", make("Tanh", "x", "y"), number("i", 3), inputs="x")

    def refused(self, kind: type[Exception], *args: object, **options: object) -> str:
        with pytest.raises(kind) as caught:
            add_gradient_operators(*args, **options)
        return str(caught.value)

    def test_nothing_to_differentiate(self) -> None:
        said = self.refused(ArgumentError, self.given, [])
        assert said == "There is nothing to differentiate: 'ys' names no blob."

    @pytest.mark.parametrize("name", ["yy", "y@2", "y@-1", "y@x"])
    @pytest.mark.parametrize("argument", ["ys", "wrt"])
    def test_an_unknown_blob(self, name: str, argument: str) -> None:
        options = {"ys": ["y"], "wrt": ["x"]} | {argument: [name]}
        said = self.refused(ArgumentError, self.given, **options)
        start = f"The net has no blob '{name}' in its main workspace; "
        assert said.startswith(start)

    @pytest.mark.parametrize("argument", ["ys", "wrt"])
    def test_a_blob_of_integers(self, argument: str) -> None:
        options = {"ys": ["y"], "wrt": ["x"]} | {argument: ["i"]}
        assert self.refused(ArgumentError, self.given, **options) == (
            f"Blob 'i' in '{argument}' holds INT32, which has no gradient; name blobs of floats."
        )

    def test_operators_without_a_gradient(self) -> None:
        ops = [make("Odd", "x", "a"), make("Even", "a", "b")]
        ops += loop([make("Odd", "b", "b")], 2)
        assert self.refused(NoGradientError, net("n", *ops), ["b"]) == (
            "The gradient passes operators that have none here: Even (1), Odd (2). Stop it before "
            "them with StopGradient, or ask for the gradients of fewer blobs."
        )

    def test_nets_nested_too_deeply(self) -> None:
        ops = [make("Tanh", "y", "y")]
        for depth in range(20):
            ops = [make("If", "c", then_net=net(f"t{depth}", *ops))]
        assert self.refused(UnsupportedError, net("n", *ops, inputs="c y"), ["y"]) == (
            "Branches and loops are nested too deeply: with what the gradient adds, the net needs "
            "more than the 100 levels that a protobuf message can have, six for each branch or "
            "loop. Take some of them apart."
        )

    def test_gradients_of_gradients_in_dos(self) -> None:
        inside = net("b", make("Tanh", "x", "y"))
        forward = net("n", make("CreateScope", "", "s"), do(inside, "s", ["x"], ["y"]))
        once, gradients = add_gradient_operators(forward, {"y": "gy"})
        assert self.refused(NoGradientError, once, [gradients["x"]]) == (
            "The gradient passes operators that have none here: Do (1). Stop it before them "
            "with StopGradient, or ask for the gradients of fewer blobs."
        )

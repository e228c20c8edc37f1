"""What is changed in forward nets, what is said about it, and that they still compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.gradients.interpreter import run
from tests.caffe2.gradients.nets import do, loop, make, net

from whileback.caffe2.gradients import GradientMap, add_gradient_operators
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

SCOPE = make("CreateScope", "", "s")


def notes(given: NetDef) -> tuple[str, ...]:
    return add_gradient_operators(given, {"y": "gy"})[1].rewritten


def differentiated(
    given: NetDef, seeds: dict[str, str], **feeds: float
) -> tuple[dict[str, np.ndarray], GradientMap]:
    """What a net with its gradient leaves, after it left what it did without."""
    result, gradients = add_gradient_operators(given, seeds)
    arrays = {name: np.array([value]) for name, value in feeds.items()}
    arrays |= {name: np.array([1.0]) for name in seeds.values()}
    before, found = run(given, arrays), run(result, arrays, arrays)
    for name in before:
        if before[name].dtype == np.float64:
            np.testing.assert_array_equal(found[name], before[name], err_msg=name)
    return found, gradients


def test_nothing_is_changed_where_all_is_kept() -> None:
    inside = net("b", make("Tanh", "x", "t"), make("Mul", "t t", "y"))
    given = net("n", SCOPE, do(inside, "s", ["x"], ["y"]), inputs="x")
    result, gradients = add_gradient_operators(given, {"y": "gy"})
    assert gradients.rewritten == ()
    assert list(result.op[:2]) == list(given.op)


def test_loops_and_branches_off_the_way_stay_as_they_are() -> None:
    counting = loop([make("Add", "count loop_one", "count")], 3)
    given = net("n", *counting, make("Tanh", "x", "y"), inputs="x count")
    result, gradients = add_gradient_operators(given, {"y": "gy"})
    assert gradients.rewritten == ()
    assert list(result.op[: len(given.op)]) == list(given.op)


def test_a_value_that_is_overwritten_is_copied() -> None:
    given = net("n", make("Mul", "x x", "y"), make("Negative", "x", "x"), inputs="x")
    assert notes(given) == (
        "Blob 'x' is copied to 'x_kept' at the start of net 'n', since the gradient reads it when "
        "it has been overwritten.",
    )
    found, gradients = differentiated(given, {"y": "gy"}, x=3.0)
    assert found[gradients["x"]] == 6.0


def test_a_copy_that_the_net_has_made_is_used() -> None:
    ops = make("Copy", "x", "kept"), make("Mul", "x x", "y"), make("Negative", "x", "x")
    assert notes(net("n", *ops, inputs="x")) == ()


def test_a_plain_body_becomes_a_do() -> None:
    given = net("n", *loop([make("Mul", "y w", "y")], 3), inputs="y w")
    assert notes(given) == (
        "The operators of net 'loop_body' are put in a Do of their own, on scope "
        "'loop_body/workspace', which leaves its blobs to the gradient.",
        "Blob 'y' is copied to 'y_kept' at the start of net 'loop_body', since the gradient reads "
        "it when it has been overwritten.",
    )
    found, gradients = differentiated(given, {"y": "gy"}, y=2.0, w=3.0)
    assert (found[gradients["y"]], found[gradients["w"]]) == (27.0, 54.0)


@pytest.mark.parametrize("outputs", ["", "y t", "y"])
def test_temporaries_of_a_plain_body_are_outside_if_they_may_be_looked_at(outputs: str) -> None:
    body = [make("Tanh", "y", "t"), make("Copy", "t", "y")]
    given = net("n", *loop(body, 2), inputs="y", outputs=outputs)
    result, _ = add_gradient_operators(given, {"y": "gy"}, wrt=["y"])
    found = run(result, {"y": np.array([0.5]), "gy": np.array([1.0])})
    assert ("t" in found) == (outputs != "y")


def test_a_scope_that_several_dos_use() -> None:
    first = do(net("b1", make("Mul", "x x", "t")), "s", ["x"], ["t"])
    second = do(net("b2", make("Mul", "t x", "y")), "s", ["t", "x"], ["y"])
    given = net("n", SCOPE, first, second, inputs="x")
    assert notes(given) == tuple(
        f"Do (writes '{blob}') gets the scope '{scope}' for itself, so that the gradient finds its "
        "workspaces there."
        for blob, scope in (("t", "s_1"), ("y", "s_2"))
    )
    found, gradients = differentiated(given, {"y": "gy"}, x=2.0)
    assert found[gradients["x"]] == 12.0


def test_a_scope_that_is_made_outside_of_the_loop_around() -> None:
    inside = do(net("b", make("Mul", "y y", "y")), "s", ["y"], ["y"])
    given = net("n", SCOPE, *loop([make("Copy", "y", "t"), inside], 2), inputs="y t")
    found, gradients = differentiated(given, {"y": "gy"}, y=1.1, t=0.0)
    assert found[gradients["y"]] == pytest.approx(4 * 1.1**3)


def test_a_scope_that_the_net_reads() -> None:
    inside = do(net("b", make("Mul", "x x", "y")), "s", ["x"], ["y"])
    ops = SCOPE, inside, inside, make("HasScope", "s", "h")
    with pytest.raises(UnsupportedError) as caught:
        add_gradient_operators(net("n", *ops, inputs="x"), {"y": "gy"})
    assert str(caught.value) == (
        "Do (writes 'y') needs a scope of its own, so that its gradient finds its workspaces, but "
        "a HasScope of the net reads 's'. Make the scope right before the operator, in the same "
        "net, and use it for nothing else."
    )


def test_a_workspace_that_is_used_again() -> None:
    first = do(net("b1", make("Tanh", "x", "local")), "s", ["x"])
    body = net("b2", make("Mul", "local y", "local"), make("Copy", "local", "y"))
    again = do(body, "s", ["y"], ["y"], reuse_workspace=1)
    given = net("n", SCOPE, first, *loop([again], 2), inputs="x y")
    assert {
        "Do (writes 'y') gets the scope 's_2' for itself, so that the gradient finds its "
        "workspaces there.",
        "Do (writes 'y') loses 'reuse_workspace', since the gradient needs a workspace of each "
        "run. What one run leaves to the next is kept outside.",
    } < set(notes(given))
    found, gradients = differentiated(given, {"y": "gy"}, x=0.5, y=0.7)
    # local = tanh(x); twice local = y = local·y: y = (tanh(x)·y)².
    assert found[gradients["y"]] == pytest.approx(2 * 0.7 * np.tanh(0.5) ** 2)
    slope = 2 * np.tanh(0.5) * (1 - np.tanh(0.5) ** 2) * 0.7**2
    assert found[gradients["x"]] == pytest.approx(slope)


def test_a_workspace_that_is_used_again_runs_its_first_net_of_a_name() -> None:
    first = do(net("b", make("Mul", "x x", "y")), "s", ["x"], ["y"])
    again = do(net("b", make("Negative", "x", "y")), "s", ["x"], ["y"], reuse_workspace=1)
    given = net("n", SCOPE, first, again, inputs="x")
    found, gradients = differentiated(given, {"y": "gy"}, x=3.0)
    assert found["y"] == 9.0
    assert found[gradients["x"]] == 6.0


@pytest.mark.parametrize("name", ["", "twice"])
def test_nets_in_dos_get_names_of_their_own(name: str) -> None:
    first = do(net(name or "b", make("Mul", "x x", "t")), "s", ["x"], ["t"])
    second = do(net(name, make("Mul", "t t", "y")), "v", ["t"], ["y"])
    ops = SCOPE, make("CreateScope", "", "v"), first, second
    result, _ = add_gradient_operators(net("n", *ops, inputs="x"), {"y": "gy"})
    names = [inside.name for op in result.op for _, inside in subnets(op)]
    assert len(set(names)) == len(names) == 4
    assert "" not in names


def test_copy_external_blobs() -> None:
    inside = do(net("b", make("Tanh", "x", "y")), "s", ["x"], ["y"], copy_external_blobs=1)
    assert notes(net("n", SCOPE, inside, inputs="x")) == (
        "Do (writes 'y') loses 'copy_external_blobs', which keeps what blobs hold after the "
        "operator and makes a second run of the gradient fail.",
    )


class TestONNXWhile:
    """carried: a, b ← b, a·b, as often as the trip count says and the condition holds."""

    body = net(
        "body",
        make("Mul", "a b", "c"),
        make("LT", "c limit", "go"),
        inputs="i condition a b limit",
        outputs="go b c limit",
    )

    def op(self, **args: int) -> OperatorDef:
        return make("ONNXWhile", "n c x y top", "u v w", body=self.body, **args)

    @pytest.mark.parametrize("trips", [0, 1, 3])
    def test_trips_are_counted(self, trips: int) -> None:
        given = net("main", self.op(has_trip_count=1, has_cond=1), inputs="n c x y top")
        result, gradients = add_gradient_operators(given, {"v": "gv"})
        assert gradients.rewritten[0] == (
            "ONNXWhile (writes 'u') becomes a While with a Do, which leaves the blobs of each trip "
            "to the gradient."
        )
        feeds = {name: np.array([value]) for name, value in (("x", 2.0), ("y", 3.0), ("gv", 1.0))}
        feeds |= {"n": np.array([trips]), "c": np.array([True]), "top": np.array([1e9])}
        found = run(result, feeds, feeds)
        # v = y, x·y, x·y², x²·y³.
        power = {0: (0, 1), 1: (1, 1), 3: (2, 3)}[trips]
        assert found["v"] == 2.0 ** power[0] * 3.0 ** power[1]
        assert found[gradients["x"]] == power[0] * found["v"] / 2.0
        assert found[gradients["y"]] == power[1] * found["v"] / 3.0

    def test_the_condition_ends_it(self) -> None:
        given = net("main", self.op(), inputs="n c x y top")
        result, gradients = add_gradient_operators(given, {"v": "gv"})
        feeds = {name: np.array([value]) for name, value in (("x", 2.0), ("y", 3.0), ("gv", 1.0))}
        feeds |= {"n": np.array([0]), "c": np.array([False]), "top": np.array([10.0])}
        found = run(result, feeds)
        assert found["v"] == 2.0 * 3.0**2
        assert found[gradients["y"]] == 2 * 2.0 * 3.0

    def test_inputs_that_are_not_carried(self) -> None:
        body = net("body", make("Mul", "a a", "b"), inputs="i condition a", outputs="condition b")
        args = {"num_loop_carried_deps": 1, "has_trip_count": 1}
        given = net("main", make("ONNXWhile", "n c a x", "u", body=body, **args))
        result, gradients = add_gradient_operators(given, {"u": "gu"}, wrt=["a", "x"])
        feeds = {"a": np.array([2.0]), "x": np.array([3.0]), "gu": np.array([1.0])}
        feeds |= {"n": np.array([2]), "c": np.array([True])}
        found = run(result, feeds)
        assert (found["u"], found[gradients["a"]], found[gradients["x"]]) == (16.0, 32.0, 0.0)

    def test_a_body_that_does_not_fit(self) -> None:
        op = make("ONNXWhile", "n c x y", "u v", body=self.body)
        with pytest.raises(NetDefError) as caught:
            add_gradient_operators(net("main", op), {"v": "gv"})
        assert str(caught.value) == (
            "ONNXWhile (writes 'u') has 4 inputs and carries 2 blobs, but its body 'body' has 5 in "
            "external_input: these must be the iteration, the condition and each carried blob."
        )


class TestMalformed:
    body = net("b", make("Tanh", "x", "y"))

    @pytest.mark.parametrize(
        ("op", "said"),
        [
            (
                make("Do", "x s", "y t", net=body),
                "Do (writes 'y') must name its scope as its last input and as its last output, but "
                "has the inputs ['x', 's'] and the outputs ['y', 't'].",
            ),
            (
                make("Do", "x s", "y s", net=body, inner_blobs=["x"], outer_blobs_idx=[0, 1]),
                "Do (writes 'y') has 1 names in 'inner_blobs', but 2 numbers in 'outer_blobs_idx'; "
                "each name needs one.",
            ),
            (
                make("Do", "x s", "y s", net=body, inner_blobs=["x"], outer_blobs_idx=[2]),
                "Do (writes 'y') binds 'x' to blob 2 of its inputs and outputs, of which there are "
                "2.",
            ),
            (
                make("If", "", "y", then_net=body),
                "If (writes 'y') needs 1 or more inputs, but has 0: []. Correct the net.",
            ),
            (make("If", "c", "y"), "If (writes 'y') needs the argument 'then_net', a net."),
            (make("While", "c", "y"), "While (writes 'y') needs the argument 'loop_net', a net."),
        ],
    )
    def test_a_malformed_operator(self, op: OperatorDef, said: str) -> None:
        with pytest.raises(NetDefError) as caught:
            add_gradient_operators(net("n", op), {"y": "gy"})
        assert str(caught.value) == said

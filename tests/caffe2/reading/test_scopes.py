"""`CreateScope`, `HasScope` and `Do`: what is kept of workspaces, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.reading.build import arrays, back, do, net, op, reading, run

from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

GIVEN = {**arrays(x=0.5, y=2.0, w=3.0, sum=0.0, i=0, one=1, T=3), "k": np.array(True)}
COUNT = net(op("Add", "i one", "i"), op("LE", "i T", "k"))
SCOPE = op("CreateScope", "", "W")
SQUARE = net(op("Sqr", "a", "b"), name="square")


def loop(*ops: OperatorDef) -> OperatorDef:
    return op("While", "k", loop_net=net(*ops), cond_net=COUNT)


def loop_back(*ops: OperatorDef) -> list[OperatorDef]:
    """A loop as long as there is a workspace."""
    there = op("HasScope", "W", "h")
    return [there, op("While", "h", loop_net=net(*ops), cond_net=net(there))]


def added(*names: str) -> OperatorDef:
    """A gradient `Do` that adds blobs of the workspace to `sum`."""
    ops = [op("Add", f"sum {name}", "sum") for name in names]
    return back("W", net(*ops, name="back"), {"sum": "sum"})


def test_a_loop_without_a_way_back_keeps_nothing() -> None:
    body = net(op("Mul", "a w", "t"), op("Tanh", "t", "a"), name="body")
    made = net(SCOPE, loop(do("W", body, {"a": "x", "w": "w"}, copy_external_blobs=1)))
    graph = reading(made, GIVEN, outputs=["x"]).model.graph
    (node,) = (node for node in graph if node.op_type == "Loop")
    assert [value.name for value in node.outputs] == ["i@2", "x@1"]
    inner = [each.op_type for each in node.attributes["body"].as_graph()]
    assert sorted(inner) == ["Add", "LessOrEqual", "Mul", "Tanh"]


def test_a_loop_keeps_what_the_way_back_reads_and_a_trip_changes() -> None:
    body = net(op("Mul", "a w", "t"), op("Tanh", "t", "a"), name="body")
    forward = loop(do("W", body, {"a": "x", "w": "w"}, copy_external_blobs=1))
    made = net(SCOPE, forward, *loop_back(added("t", "w")))
    found = reading(made, GIVEN, outputs=["sum"])
    first = next(node for node in found.model.graph if node.op_type == "Loop")
    assert [str(value.name) for value in first.outputs[-2:]] == ["W/top/rows", "t_1/rows"]
    x, total = np.float32(0.5), np.float32(0)
    for _ in range(3):
        total += 3 * x + 3
        x = np.tanh(3 * x)
    np.testing.assert_allclose(run(made, GIVEN)["sum"], total, rtol=1e-6)


def test_has_scope() -> None:
    made = net(SCOPE, op("HasScope", "W", "h"), do("W", SQUARE, {"a": "x", "b": "y"}))
    made.op.append(op("HasScope", "W", "g"))
    result = run(made, GIVEN)
    assert (result["h"].tolist(), result["g"].tolist()) == ([False], [True])


def refusal(*ops: OperatorDef) -> str:
    with pytest.raises((NetDefError, UnsupportedError)) as info:
        reading(net(*ops), GIVEN)
    return str(info.value)


def test_a_do_without_a_scope() -> None:
    made = do("W", SQUARE, {"a": "x", "b": "y"})
    assert refusal(made) == (
        "Do (writes 'W') needs a scope in blob 'W'. Write it by CreateScope before."
    )


def test_the_scope_of_a_tensor() -> None:
    assert refusal(op("HasScope", "x", "h")) == (
        "HasScope (writes 'h') needs a scope in blob 'x'. Write it by CreateScope before."
    )


def test_a_workspace_that_is_not_there() -> None:
    assert refusal(SCOPE, back("W", SQUARE, {"a": "x", "b": "y"})) == (
        "Do (writes 'W') takes a workspace from scope 'W', which has none. Run a forward Do on it "
        "before."
    )


def test_a_name_that_stands_for_two_blobs() -> None:
    gradient = net(op("Sqr", "a", "c"), name="gradient")
    made = (SCOPE, do("W", SQUARE, {"a": "x", "b": "y"}), back("W", gradient, {"a": "w"}))
    assert refusal(*made) == (
        "Do (writes 'W') binds 'a' to blob 'w', but in the workspace on top of scope 'W' it "
        "stands for 'x'."
    )


def test_a_local_that_nothing_has_written() -> None:
    made = (SCOPE, do("W", SQUARE, {"a": "x", "b": "y"}), added("nothing"))
    assert "Add (writes 'sum') reads blob 'nothing'" in refusal(*made)


def two_sites(first: NetDef, second: NetDef, *names: str) -> list[OperatorDef]:
    """Two `Do`s push on one scope in each trip; one gradient `Do` takes all workspaces."""
    push = (do("W", first, {"a": "x"}), do("W", second, {"a": "x"}))
    return [SCOPE, loop(*push), *loop_back(added(*names))]


def test_two_nets_that_leave_one_name_on_one_scope() -> None:
    first = net(op("Scale", "a", "t", scale=2.0), name="first")
    second = net(op("Scale", "a", "t", scale=3.0), name="second")
    assert run(net(*two_sites(first, second, "t")), GIVEN)["sum"] == 7.5


def test_types_that_differ_in_workspaces_of_one_scope() -> None:
    first = net(op("Scale", "a", "t", scale=2.0), name="first")
    second = net(op("Cast", "a", "t", to=2), name="second")
    assert refusal(*two_sites(first, second, "t")) == (
        "Do (writes 'W') leaves INT32 in blob 't', another Do on scope 'W' FLOAT. Use a scope for "
        "each."
    )


def test_a_name_that_is_bound_in_some_workspaces_only() -> None:
    first = net(op("Scale", "a", "t", scale=2.0), name="first")
    second = net(op("Scale", "t", "a", scale=3.0), name="second")
    push = (do("W", first, {"a": "x"}), do("W", second, {"a": "x", "t": "y"}))
    assert refusal(SCOPE, loop(*push), *loop_back(added("t"))) == (
        "Do (writes 'W') runs in a workspace of scope 'W' of which only the run knows what blob "
        "'t' stands for. Use a scope for each Do."
    )


def test_a_workspace_used_again_under_one_that_was_taken() -> None:
    body = net(op("Scale", "a", "t", scale=2.0), name="body")
    push = do("W", body, {"a": "x"})
    again = do("W", net(op("Copy", "t", "u"), name="again"), {}, reuse_workspace=1)
    made = (SCOPE, loop(push, push, added("t"), again), *loop_back(added("t")))
    assert refusal(*made) == (
        "Do (writes 'W') goes on with a workspace of scope 'W' after the one above it was taken. "
        "Use a scope for each of them."
    )

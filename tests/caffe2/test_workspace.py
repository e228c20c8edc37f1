"""`Workspace`: what is fed, run and fetched, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whileback.caffe2 import workspace as module
from whileback.caffe2.workspace import Workspace
from whileback.errors import ArgumentError, NetDefError, UnsupportedError
from whileback.formats import caffe2
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef


def op(op_type: str, inputs: str = "", outputs: str = "", **args: Any) -> OperatorDef:
    made = OperatorDef(type=op_type, input=inputs.split(), output=outputs.split())
    for name, value in args.items():
        add_argument(made, name, value)
    return made


def net(*ops: OperatorDef, name: str = "n") -> NetDef:
    return NetDef(name=name, op=ops)


def workspace(**blobs: Any) -> Workspace:
    ws = Workspace()
    for name, value in blobs.items():
        ws.feed(name, value)
    return ws


def fetched(ws: Workspace, *names: str) -> list[Any]:
    return [ws.fetch(name).tolist() for name in names]


def test_blobs_stay_for_the_next_net() -> None:
    ws = workspace(x=[1.0, -2.0])
    ws.run(net(op("Relu", "x", "y"), op("Mul", "y y", "z")))
    ws.run(net(op("Mul", "z y", "y")))
    assert fetched(ws, "x", "y", "z") == [[1, -2], [1, 0], [1, 0]]


def test_a_net_overwrites_its_inputs() -> None:
    ws = workspace(x=[3.0])
    for _ in range(3):
        ws.run(net(op("Mul", "x x", "x")))
    assert fetched(ws, "x") == [[3.0**8]]


def test_a_net_may_be_a_file(tmp_path: Path) -> None:
    caffe2.save(net(op("Relu", "x", "y")), tmp_path / "n.pbtxt")
    ws = workspace(x=[-1.0])
    ws.run(tmp_path / "n.pbtxt")
    ws.run(str(tmp_path / "n.pbtxt"))
    assert fetched(ws, "y") == [[0]]


def test_what_external_output_leaves_out_is_there_too() -> None:
    made = net(op("Relu", "x", "y"), op("Mul", "y y", "z"))
    made.external_output.append("z")
    ws = workspace(x=[2.0])
    ws.run(made)
    assert ws.blobs() == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1.5], np.float32),
        (2.5, np.float32),
        ([1, 2], np.int64),
        ([True], np.bool_),
        (["a", b"b\xc3\xbc"], object),
        (np.float64([1]), np.float64),
        (np.float16([1]), np.float16),
        (np.uint8([1]), np.uint8),
        (np.array(["a"]), object),
    ],
)
def test_a_blob_keeps_its_type(value: Any, dtype: Any) -> None:
    assert workspace(x=value).fetch("x").dtype == dtype


def test_no_strings_at_all() -> None:
    ws = Workspace()
    ws.feed("x", np.zeros((0, 2), object))
    ws.run(NetDef(op=[OperatorDef(type="Copy", input=["x"], output=["y"])]))
    assert (ws.fetch("y").dtype, ws.fetch("y").shape) == (object, (0, 2))


def test_byte_strings_are_text() -> None:
    ws = workspace(x=["a", b"b\xc3\xbc"])
    ws.run(net(op("Copy", "x", "y")))
    assert fetched(ws, "y") == [["a", "bü"]]


def test_blobs_are_copies() -> None:
    array = np.ones(2, np.float32)
    ws = workspace(x=array)
    array[0] = 5
    ws.fetch("x")[1] = 5
    assert fetched(ws, "x") == [[1, 1]]


def test_a_net_is_compiled_once_for_each_set_of_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = module.compile
    monkeypatch.setattr(module, "compile", lambda model: compiled.append(1) or compile_(model))
    ws, made = workspace(x=[1.0]), net(op("Relu", "x", "y"), op("Mul", "y y", "y"))
    for size in (1, 1, 2, 1, 2):
        ws.feed("x", np.ones(size, np.float32))
        ws.run(made)
    ws.run(net(op("Relu", "x", "y")))
    assert len(compiled) == 3
    assert fetched(ws, "y") == [[1, 1]]


def test_a_changed_net_is_another_net() -> None:
    ws, made = workspace(x=[-1.0]), net(op("Relu", "x", "y"))
    ws.run(made)
    made.op[0].type = "Negative"
    ws.run(made)
    assert fetched(ws, "y") == [[1]]


def test_iterations_are_counted_from_run_to_run() -> None:
    ws = Workspace()
    ws.run(net(op("CreateMutex", "", "mutex"), op("ConstantFill", "", "t", shape=[1], dtype=10)))
    step = net(op("AtomicIter", "mutex t", "t"), op("Iter", "", "own"))
    for _ in range(3):
        ws.run(step)
    assert fetched(ws, "t", "own") == [[3], [3]]


def test_counters_keep_their_count() -> None:
    ws = Workspace()
    ws.run(net(op("CreateCounter", "", "c", init_count=2)))
    down = net(op("CountDown", "c", "was_done"), op("CheckCounterDone", "c", "done"))
    seen = []
    for _ in range(3):
        ws.run(down)
        seen.append(fetched(ws, "was_done", "done"))
    assert seen == [[False, False], [False, True], [True, True]]
    ws.run(net(op("ResetCounter", "c", "old", init_count=5), op("CountUp", "c", "up")))
    ws.run(net(op("RetrieveCount", "c", "count"), op("ResetCounter", "c")))
    ws.run(net(op("CountUp", "c", "zero")))
    assert fetched(ws, "old", "up", "count", "zero") == [-1, 5, 6, 0]


def test_a_blob_that_is_unknown() -> None:
    ws = workspace(weights=[1.0])
    with pytest.raises(ArgumentError, match="has no blob 'weight'; did you mean 'weights'"):
        ws.fetch("weight")
    message = (
        r"^Relu \(writes 'y'\) of net 'n' reads blob 'weight', which the workspace does not have; "
        r"did you mean 'weights'\? Feed it, or run the net that makes it first\.$"
    )
    with pytest.raises(ArgumentError, match=message):
        ws.run(net(op("Relu", "weight", "y")))
    assert ws.blobs() == ["weights"]


def test_a_blob_that_holds_no_tensor() -> None:
    ws = Workspace()
    ws.run(net(op("CreateMutex", "", "m")))
    assert "m" in ws and ws.blobs() == ["m"]
    with pytest.raises(
        ArgumentError, match=r"'m' holds no tensor: CreateMutex \(writes 'm'\) put none there"
    ):
        ws.fetch("m")
    ws.feed("m", [1.0])
    assert fetched(ws, "m") == [[1]]


@pytest.mark.parametrize("value", [[1j], [None], [["a", 1]], [object()]])
def test_values_that_are_no_tensors(value: Any) -> None:
    with pytest.raises(ArgumentError, match="Blob 'x' cannot hold"):
        workspace(x=value)


def test_operators_that_cannot_be_run_are_listed() -> None:
    with pytest.raises(UnsupportedError, match=r"2 types .*NoSuchA \(2\), NoSuchB \(1\)"):
        workspace(x=[1.0]).run(net(*(op(f"NoSuch{name}", "x", "y") for name in "ABA")))


def test_a_net_that_fails_leaves_the_blobs_alone() -> None:
    ws = workspace(x=[1.0], i=np.int64([5]))
    with pytest.raises(Exception, match="indices element out of data bounds"):
        ws.run(net(op("Relu", "x", "x"), op("Gather", "x i", "y")))
    assert ws.blobs() == ["i", "x"]


ADD = net(op("Add", "x one", "x"), name="add")
TEST = net(op("Copy", "x", "y"), op("GE", "x limit", "stop"), name="test")


def steps(*made: ExecutionStep, nets: tuple[NetDef, ...] = (ADD, TEST)) -> PlanDef:
    return PlanDef(network=nets, execution_step=made)


@pytest.mark.parametrize(
    ("plan", "x"),
    [
        (steps(ExecutionStep(network=["add"])), 1),
        (steps(ExecutionStep(network=["add"], num_iter=3), ExecutionStep(network=["add"])), 4),
        (steps(ExecutionStep(network=["add"], num_iter=0)), 0),
        (steps(ExecutionStep(network=["add", "test"], should_stop_blob="stop")), 3),
        (steps(ExecutionStep(network=["test", "add"], should_stop_blob="stop")), 3),
        (steps(ExecutionStep(should_stop_blob="stop")), 0),
        (
            steps(
                ExecutionStep(
                    substep=[
                        ExecutionStep(network=["add"]),
                        ExecutionStep(network=["add"], num_iter=2),
                    ],
                    num_iter=2,
                )
            ),
            6,
        ),
        (
            steps(
                ExecutionStep(
                    substep=[
                        ExecutionStep(network=["add", "test"]),
                        ExecutionStep(network=["add"]),
                    ],
                    should_stop_blob="stop",
                )
            ),
            3,
        ),
    ],
)
def test_the_steps_of_a_plan(plan: PlanDef, x: float) -> None:
    ws = workspace(x=0.0, one=1.0, limit=3.0, stop=False)
    ws.run(plan)
    assert fetched(ws, "x") == [x]


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (
            ExecutionStep(name="s", network=["no"]),
            NetDefError,
            "Step 's' runs net 'no', which the plan does not have.",
        ),
        (
            ExecutionStep(name="s", network=["add"], substep=[ExecutionStep()]),
            NetDefError,
            "Step 's' has both nets and steps. Put the nets into a step of their own.",
        ),
        (
            ExecutionStep(name="s", network=["add"], num_iter=2, should_stop_blob="stop"),
            NetDefError,
            "Step 's' has both 'num_iter' and 'should_stop_blob'. Leave one out.",
        ),
        (
            ExecutionStep(substep=[ExecutionStep(name="s", only_once=True)]),
            UnsupportedError,
            "Step 's' asks for 'only_once', which is not supported.",
        ),
    ],
)
def test_plans_that_are_refused(step: ExecutionStep, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        Workspace().run(steps(step))
    assert str(caught.value) == message

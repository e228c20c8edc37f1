"""Every operator, given what it cannot take: an error in plain words, at once, never a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import pytest

from whileback.caffe2 import (
    NetDef,
    OperatorDef,
    PlanDef,
    TensorSpec,
    Workspace,
    add_gradient_operators,
    convert,
    save,
)
from whileback.caffe2.operators.registry import gradient_operators, lowerings
from whileback.caffe2.reading import read
from whileback.errors import ArgumentError, NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import Argument, ExecutionStep

# What a net of one operator may be refused with.
REFUSALS = (NetDefError, UnsupportedError, ArgumentError)
FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
KINDS = [(FLOAT, (2, 3)), (INT64, (4,)), (FLOAT, ())]
ARGUMENTS = [
    Argument(name="axis", i=99),
    Argument(name="kernel", i=0),
    Argument(name="shape", ints=[2**40]),
    Argument(name="order", s=b"\xff"),
    Argument(name="axes", n=NetDef(name="n")),
]


def refusal(run: Callable[[], object]) -> str:
    """Run something in less than a second, and return what it is refused with, if it is."""
    start = time.perf_counter()
    said = ""
    try:
        run()
    except REFUSALS as error:
        said = str(error)
    assert time.perf_counter() - start < 1
    return said


def operators(op_type: str) -> list[OperatorDef]:
    """The operator with up to five inputs and up to three outputs, and with absurd arguments."""
    counts = [(inputs, outputs) for inputs in range(6) for outputs in (1, 3)]
    plain = [
        OperatorDef(type=op_type, input=list("abcde"[:n]), output=list("xyz"[:m]))
        for n, m in [*counts, (1, 0)]
    ]
    return plain + [
        OperatorDef(type=op_type, input=["a"], output=["x"], arg=[arg]) for arg in ARGUMENTS
    ]


@pytest.mark.parametrize("op_type", sorted(lowerings))
def test_reading_an_operator_that_was_given_something_else(op_type: str) -> None:
    for op in operators(op_type):
        for dtype, shape in KINDS:
            inputs = {name: TensorSpec(dtype, shape) for name in op.input}
            said = refusal(lambda op=op, inputs=inputs: read(NetDef(name="n", op=[op]), inputs))
            assert not said or op_type in said
            assert said.count(f"{op_type} (writes") <= 1


@pytest.mark.parametrize("op_type", sorted(gradient_operators))
def test_differentiating_an_operator_that_was_given_something_else(op_type: str) -> None:
    for op in operators(op_type):
        if op.output:
            net = NetDef(name="n", op=[op])
            said = refusal(lambda net=net: add_gradient_operators(net, ["x"]))
            assert not said or op_type in said or "'x'" in said


def nested(control: str, argument: str, depth: int) -> NetDef:
    net = NetDef(name="innermost", op=[OperatorDef(type="Relu", input=["x"], output=["x"])])
    for level in range(depth):
        op = OperatorDef(type=control, input=["c"], arg=[Argument(name=argument, n=net)])
        net = NetDef(name=f"level{level}", op=[op])
    return net


@pytest.mark.parametrize(("control", "argument"), [("If", "then_net"), ("While", "loop_net")])
def test_nets_nested_as_deeply_as_messages_can_be(control: str, argument: str) -> None:
    inputs = {"x": TensorSpec(FLOAT, (2,)), "c": TensorSpec(ir.DataType.BOOL, ())}
    net = nested(control, argument, 30)
    refusal(lambda: read(net, inputs))
    assert "deep" in refusal(lambda: add_gradient_operators(net, ["x"]))


@pytest.mark.parametrize("control", ["If", "While"])
@pytest.mark.parametrize("depth", [100, 10000])
def test_nets_nested_beyond_all_measure(control: str, depth: int, tmp_path: Path) -> None:
    net = innermost = NetDef(name="n")
    for _ in range(depth):
        op = innermost.op.add(type=control, input=["c"])
        innermost = op.arg.add(name="then_net" if control == "If" else "loop_net").n
    innermost.op.add(type="Relu", input=["x"], output=["x"])
    for run in (
        lambda: convert(net, inputs={"x": (2,)}),
        lambda: Workspace().run(net),
        lambda: add_gradient_operators(net, ["x"]),
        lambda: save(net, tmp_path / "net.pbtxt"),
    ):
        assert "nest" in (said := refusal(run)) or "inside more than 30 nets" in said
    assert not list(tmp_path.iterdir())


def test_a_counter_that_counts_floats() -> None:
    op = OperatorDef(type="CountUp", input=["x"], output=["y"])
    said = refusal(lambda: read(NetDef(name="n", op=[op]), {"x": TensorSpec(FLOAT, ())}))
    assert said.startswith("CountUp (writes 'y') cannot be computed with the inputs 'x' and")


def test_a_plan_that_ends_when_many_elements_are_true() -> None:
    fill = OperatorDef(type="ConstantFill", output=["stop"], arg=[Argument(name="shape", ints=[5])])
    step = ExecutionStep(name="s", network=["n"], should_stop_blob="stop")
    plan = PlanDef(network=[NetDef(name="n", op=[fill])], execution_step=[step])
    assert refusal(lambda: Workspace().run(plan)) == (
        "Blob 'stop' is 'should_stop_blob' of a step, which needs one element, but it has the "
        "shape [5]."
    )


@pytest.mark.parametrize(
    ("op_type", "shapes"),
    [("SpatialBN", [(1, 2, 3, 3), (), (2,), (2,), (2,)]), ("Transpose", [(2, 3)])],
)
def test_shapes_that_onnx_refuses(op_type: str, shapes: list[tuple[int, ...]]) -> None:
    names = [f"x{k}" for k in range(len(shapes))]
    op = OperatorDef(type=op_type, input=names, output=["y"])
    op.arg.add(name="is_test", i=1)
    op.arg.add(name="axes", ints=[1, 0, 2])
    specs = {name: TensorSpec(FLOAT, shape) for name, shape in zip(names, shapes, strict=True)}
    said = refusal(lambda: read(NetDef(name="n", op=[op]), specs))
    assert said.startswith(f"{op_type} (writes 'y') cannot be computed with the inputs 'x0' FLOAT")

"""Every operator, given what it cannot take: an error in plain words, at once, never a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
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
    initial_blobs,
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


def ran(net: NetDef, **blobs: object) -> str:
    """What a net is refused with when it runs; its blobs are then what they were."""
    ws = Workspace()
    for name, value in blobs.items():
        ws.feed(name, value)
    said = refusal(lambda: ws.run(net))
    assert ws.blobs() == sorted(blobs)
    return said


def gather() -> OperatorDef:
    return OperatorDef(type="Gather", input=["x", "i"], output=["y"])


def test_an_operator_that_fails_when_the_net_runs() -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["x"]), gather()])
    assert ran(net, x=np.zeros((3, 4)).astype(np.float32), i=[7]) == (
        "Gather (writes 'y') fails with what its blobs hold: indices element out of data bounds, "
        "idx=7 must be within the inclusive range [-3,2]. Correct them, or the operator."
    )


@pytest.mark.parametrize("control", ["If", "While"])
def test_an_operator_that_fails_inside_another(control: str) -> None:
    inner = NetDef(name="inner", op=[gather()])
    inner.op.add(type="Not", input=["c"], output=["c"])
    op = OperatorDef(type=control, input=["c"])
    op.arg.add(name="then_net" if control == "If" else "loop_net").n.CopyFrom(inner)
    said = ran(NetDef(name="n", op=[op]), x=[1.0], i=[7], c=True, y=[1.0])
    assert said.startswith("Gather (writes 'y') fails with what its blobs hold: indices element")


def test_one_of_several_operators_that_write_a_blob() -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Copy", input=["x"], output=["y"]), gather()])
    assert ran(net, x=[1.0], i=[7]).startswith("Copy (writes 'y') or Gather (writes 'y') fails")


def test_an_init_net_that_fails() -> None:
    shape, values = Argument(name="shape", ints=[1]), Argument(name="values", ints=[7])
    net = NetDef(name="n")
    net.op.add(type="UniformFill", output=["x"], arg=[shape])
    net.op.add(type="GivenTensorInt64Fill", output=["i"], arg=[shape, values])
    net.op.append(gather())
    said = refusal(lambda: initial_blobs(net))
    assert said.startswith("Gather (writes 'y') fails with what its blobs hold: indices element")


def test_types_that_the_runtime_lacks() -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Acos", input=["x"], output=["y"])])
    assert ran(net, x=np.zeros(2)) == (
        "Acos (writes 'y') cannot be run on tensors of these types: ONNX Runtime refuses model "
        "'n': Could not find an implementation for Acos(7) node with name 'y/Acos', which is "
        "lacking on a CPU for the types that it is given; convert the model to FLOAT, or take "
        "another engine (--engine)."
    )


def test_strings_that_are_no_text() -> None:
    op = OperatorDef(type="GivenTensorStringFill", output=["s"])
    op.arg.add(name="shape", ints=[1])
    op.arg.add(name="values", strings=[b"\xff"])
    assert refusal(lambda: read(NetDef(name="n", op=[op]), {})) == (
        "GivenTensorStringFill (writes 's') cannot be read: b'\\xff' is no UTF-8, and ONNX has no "
        "other strings"
    )
    net = NetDef(name="n", op=[OperatorDef(type="Copy", input=["s"], output=["y"])])
    bad = np.array([b"\xff"], object)
    for run in (
        lambda: Workspace().feed("s", bad),
        lambda: convert(net, {"s": bad}, inputs={"x": (1,)}),
        lambda: read(net, {}, {"s": bad}),
    ):
        assert refusal(run) == (
            "Blob 's' cannot hold b'\\xff': it is no UTF-8, and ONNX has no other strings."
        )


def test_rows_of_different_lengths() -> None:
    assert refusal(lambda: Workspace().feed("x", [[1], [2, 3]])) == (
        "Blob 'x' cannot hold [[1], [2, 3]]: its rows are of different lengths."
    )


@pytest.mark.parametrize("dim", [-1, 2**63, 1.5, ""])
def test_sizes_that_no_input_has(dim: object) -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["y"])])
    assert refusal(lambda: convert(net, inputs={"x": (2, dim)})) == (
        f"{dim!r} is no size of an input; give a number from 0 on, or a name if it may vary."
    )


def test_types_that_no_input_has() -> None:
    said = refusal(lambda: TensorSpec("FLOAT", (2,)))
    assert said == "'FLOAT' is no type; give one such as ir.DataType.FLOAT."


def test_plans_nested_beyond_all_measure() -> None:
    plan = PlanDef(name="p")
    step = plan.execution_step.add(name="s")
    for _ in range(10000):
        step = step.substep.add(name="s")
    assert refusal(lambda: Workspace().run(plan)) == (
        "Step 's' stands inside more than 100 steps. Flatten the plan."
    )


def test_more_lengths_than_outputs() -> None:
    op = OperatorDef(type="GatherRangesToDense", input=["x", "r"], output=["y"])
    op.arg.add(name="lengths", ints=range(30000))
    inputs = {"x": TensorSpec(FLOAT, (8,)), "r": TensorSpec(ir.DataType.INT32, (2, 2, 2))}
    assert refusal(lambda: read(NetDef(name="n", op=[op]), inputs)) == (
        "GatherRangesToDense (writes 'y') has 1 outputs, but 30000 'lengths'; each output needs "
        "one."
    )


def test_lengths_that_are_split_into_nothing() -> None:
    op = OperatorDef(type="LengthsSplit", input=["l"], output=["y"])
    op.arg.add(name="n_split", i=0)
    inputs = {"l": TensorSpec(ir.DataType.INT32, (3,))}
    assert refusal(lambda: read(NetDef(name="n", op=[op]), inputs)) == (
        "LengthsSplit (writes 'y') has 'n_split' 0; it must be 1 or more."
    )


def one(op_type: str, inputs: dict[str, tuple[int, ...]], *args: Argument) -> NetDef:
    return NetDef(
        name="n", op=[OperatorDef(type=op_type, input=list(inputs), output=["y"], arg=args)]
    )


KEEPS_NONE = Argument(name="keepdims", i=0)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceSumGradient", "ReduceL2Gradient"])
@pytest.mark.parametrize("axes", [range(30000), [0] * 30000, [0, -2]])
def test_axes_that_no_tensor_has(op_type: str, axes: list[int]) -> None:
    shapes = {"dy": (3,), "x": (2, 3), "y0": (3,)} if "Gradient" in op_type else {"x": (2, 3)}
    specs = {name: TensorSpec(FLOAT, shape) for name, shape in shapes.items()}
    net = one(op_type, shapes, Argument(name="axes", ints=axes), KEEPS_NONE)
    assert refusal(lambda: read(net, specs)).startswith(f"{op_type} (writes 'y') has ")
    unknown = {name: TensorSpec(FLOAT, None) for name in shapes}
    said = refusal(lambda: read(net, unknown))
    assert said.startswith(f"{op_type} (writes 'y') has 30000 numbers in 'axes'") or len(axes) == 2


@pytest.mark.parametrize(
    ("op_type", "arg"),
    [
        ("Mod", Argument(name="divisor", i=-(2**63))),
        ("ResizeNearest", Argument(name="width_scale", i=2**63 - 1)),
        ("ResizeNearest", Argument(name="width_scale", f=float("inf"))),
        ("UpsampleBilinear", Argument(name="height_scale", f=float("nan"))),
        ("ResizeNearest3D", Argument(name="temporal_scale", i=2**63 - 1)),
    ],
)
def test_numbers_beyond_all_measure(op_type: str, arg: Argument) -> None:
    shape = (1, 1, 2, 2, 2)[: 5 if "3D" in op_type else 4]
    spec = TensorSpec(ir.DataType.INT32 if op_type == "Mod" else FLOAT, shape)
    said = refusal(lambda: read(one(op_type, {"x": shape}, arg), {"x": spec}))
    assert said.startswith(f"{op_type} (writes 'y') ")


def test_sizes_that_no_number_is_large_enough_for() -> None:
    shape = (1, 1, 2, 2**62)
    net = one("ResizeNearest", {"x": shape}, Argument(name="width_scale", f=4))
    said = refusal(lambda: read(net, {"x": TensorSpec(FLOAT, shape)}))
    assert "(ONNX's Resize: makes a tensor FLOAT[1,1,2,18446744073709551616])" in said


def test_a_step_of_no_iterations() -> None:
    net = one("WeightScale", {"w": (2,), "i": (1,)}, Argument(name="stepsize", i=0))
    specs = {"w": TensorSpec(FLOAT, (2,)), "i": TensorSpec(INT64, (1,))}
    assert refusal(lambda: read(net, specs)) == (
        "WeightScale (writes 'y') has the stepsize 0. Make it 1 or more."
    )


@pytest.mark.parametrize("op_type", sorted(name for name in lowerings if name.endswith("Gradient")))
def test_gradients_of_strings(op_type: str) -> None:
    shapes = dict.fromkeys("abcd", (1, 1, 4, 4))
    for count in range(1, 5):
        inputs = dict(list(shapes.items())[:count])
        specs = {name: TensorSpec(ir.DataType.STRING, shape) for name, shape in inputs.items()}
        net = one(op_type, inputs)
        refusal(lambda net=net, specs=specs: convert(net, inputs=specs))


@pytest.mark.parametrize(
    ("inputs", "outputs", "what"),
    [([""], ["y"], "inputs"), (["x", ""], ["y"], "inputs"), (["x"], ["y", ""], "outputs")],
)
def test_blobs_without_a_name(inputs: list[str], outputs: list[str], what: str) -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Dropout", input=inputs, output=outputs)])
    for run in (
        lambda: convert(net),
        lambda: Workspace().run(net),
        lambda: add_gradient_operators(net, ["y"]),
    ):
        assert refusal(run) == (
            f"Dropout (writes 'y') has a blob without a name among its {what}. Give it one, or "
            "leave it out."
        )


def test_more_axes_than_a_tensor_can_have() -> None:
    net = one("ExpandDims", {"x": (2,)}, Argument(name="dims", ints=range(64)))
    said = refusal(lambda: read(net, {"x": TensorSpec(FLOAT, (2,))}))
    assert said.startswith(
        "ExpandDims (writes 'y') cannot be computed with the inputs 'x' FLOAT[2]"
    )
    assert "(ONNX's Unsqueeze: makes a tensor of 65 axes)" in said

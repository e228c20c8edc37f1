"""ONNXWhile, Caffe2's form of ONNX's Loop, as the While that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whileback.caffe2.reading.nets import carried_count
from whileback.formats.caffe2.arguments import Arguments, add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto

__all__ = ["expanded", "has_scans"]


def has_scans(op: OperatorDef) -> bool:
    """Tell whether an ONNXWhile collects values of its trips, beside the carried ones."""
    return len(op.output) > carried_count(op)


def expanded(op: OperatorDef) -> NetDef:
    """Return a net that computes what an ONNXWhile without collected values computes.

    Its blobs are those of the operator, and others whose names begin with `loop/`.
    """
    args = Arguments(op)
    body, carried = args.net("body"), op.input[2 : 2 + carried_count(op)]
    cells = [f"loop/carried_{place}" for place in range(len(carried))]
    net = NetDef(name=f"{body.name}_loop")
    net.op.extend(
        [
            _fill("loop/iteration", TensorProto.INT64, 0),
            _fill("loop/one", TensorProto.INT64, 1),
            _fill("loop/go", TensorProto.BOOL, 1),
            _condition(op, args.bool("has_cond", False)),
            *_copies(carried, cells),
            OperatorDef(type="CreateScope", output=["loop/scope"]),
            _loop(body, cells, args.bool("has_trip_count", False), op.input[0]),
            *_copies(cells, op.output),
        ]
    )
    return net


def _condition(op: OperatorDef, given: bool) -> OperatorDef:
    """Return the operator that makes the first condition, which holds if none is given."""
    source = op.input[1] if given else "loop/go"
    return OperatorDef(type="Copy", input=[source], output=["loop/condition"])


def _loop(body: NetDef, cells: Sequence[str], counted: bool, limit: str) -> OperatorDef:
    """Return the While."""
    net = NetDef(name=body.name)
    inside = ["loop/iteration", "loop/condition", *cells]
    net.op.extend(_copies(inside, body.external_input))
    net.op.extend(body.op)
    net.op.extend(_copies(body.external_output, ["loop/condition", *cells]))
    count = ["loop/iteration", "loop/one"]
    net.op.append(OperatorDef(type="Add", input=count, output=["loop/iteration"]))
    bound = [*inside, "loop/one"]
    do = OperatorDef(type="Do", input=[*bound, "loop/scope"], output=[*inside, "loop/scope"])
    _add(do, net=net, inner_blobs=bound, outer_blobs_idx=list(range(len(bound))))
    test = NetDef(name=f"{body.name}_condition")
    if counted:
        below = OperatorDef(type="LT", input=["loop/iteration", limit], output=["loop/below"])
        both = ["loop/below", "loop/condition"]
        test.op.extend([below, OperatorDef(type="And", input=both, output=["loop/go"])])
    else:
        test.op.extend(_copies(["loop/condition"], ["loop/go"]))
    loop = OperatorDef(type="While", input=["loop/go"])
    _add(loop, loop_net=NetDef(name=f"{body.name}_trip", op=[do]), cond_net=test)
    return loop


def _copies(sources: Sequence[str], targets: Sequence[str]) -> list[OperatorDef]:
    both = zip(sources, targets, strict=False)
    return [OperatorDef(type="Copy", input=[source], output=[target]) for source, target in both]


def _fill(blob: str, dtype: int, value: int) -> OperatorDef:
    op = OperatorDef(type="ConstantFill", output=[blob])
    _add(op, shape=[1], dtype=dtype, value=value)
    return op


def _add(op: OperatorDef, **args: Any) -> None:
    for name, value in args.items():
        add_argument(op, name, value)

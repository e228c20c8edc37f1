"""Mutexes and counters: operators that change what a blob holds without naming it as an output.

A counter is read as a tensor INT64, a mutex as nothing at all: a net runs in order.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import not_differentiable
from whileback.caffe2.reading.reader import Opaque, Reader, controls
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

not_differentiable(
    "it counts",
    *("AtomicIter", "CheckCounterDone", "CountDown", "CountUp", "CreateCounter", "CreateMutex"),
    *("Iter", "ResetCounter", "RetrieveCount"),
)


def _create_mutex(reader: Reader, op: OperatorDef) -> None:
    """Make a blob that only AtomicIter reads, and ignores."""
    reader.write(op.output[0], Opaque())


def _iter(reader: Reader, op: OperatorDef) -> None:
    """Add 1 to the last input, or to the output where there is no input; that begins at 0."""
    blob = op.output[0]
    if op.input:
        count = _count(reader, op, op.input[-1])
    else:
        held = reader.content(blob)
        count = held if isinstance(held, ir.Value) else reader.op.constant(np.zeros(1, np.int64))
    reader.write(blob, reader.op.Add(count, 1))


def _create_counter(reader: Reader, op: OperatorDef) -> None:
    """Make a counter."""
    reader.write(op.output[0], reader.op.constant(np.int64(Arguments(op).int("init_count", 0))))


def _count_up(reader: Reader, op: OperatorDef) -> None:
    """Return the count, then add 1."""
    count = _count(reader, op, op.input[0])
    reader.write(op.output[0], count)
    reader.write(op.input[0], reader.op.Add(count, 1))


def _count_down(reader: Reader, op: OperatorDef) -> None:
    """Tell whether the count is 0 or less, then subtract 1."""
    count = _count(reader, op, op.input[0])
    reader.write(op.output[0], reader.op.LessOrEqual(count, 0))
    reader.write(op.input[0], reader.op.Sub(count, 1))


def _check_counter_done(reader: Reader, op: OperatorDef) -> None:
    """Tell whether the count is 0 or less."""
    reader.write(op.output[0], reader.op.LessOrEqual(_count(reader, op, op.input[0]), 0))


def _reset_counter(reader: Reader, op: OperatorDef) -> None:
    """Set the count to init_count; return what it was, if that is wanted."""
    if op.output:
        reader.write(op.output[0], _count(reader, op, op.input[0]))
    _create_counter(reader, OperatorDef(output=op.input[:1], arg=op.arg))


def _retrieve_count(reader: Reader, op: OperatorDef) -> None:
    """Return the count."""
    reader.write(op.output[0], _count(reader, op, op.input[0]))


def _count(reader: Reader, op: OperatorDef, name: str) -> ir.Value:
    value = reader.value(op, name)
    if value is None:
        raise NetDefError(f"{label(op)} needs a count in blob '{name}', which holds no tensor.")
    return value


controls.update(
    AtomicIter=_iter,
    CheckCounterDone=_check_counter_done,
    CountDown=_count_down,
    CountUp=_count_up,
    CreateCounter=_create_counter,
    CreateMutex=_create_mutex,
    Iter=_iter,
    ResetCounter=_reset_counter,
    RetrieveCount=_retrieve_count,
)

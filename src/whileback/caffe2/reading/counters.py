"""Mutexes and counters: operators that change what a blob holds without naming it as an output.

A counter is read as a tensor INT64, a mutex as nothing at all: a net runs in order.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from whileback.caffe2.operators.registry import not_differentiable
from whileback.caffe2.reading.contents import Opaque
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader, controls

not_differentiable(
    "it counts",
    *("AtomicIter", "CheckCounterDone", "CountDown", "CountUp", "CreateCounter", "CreateMutex"),
    *("Iter", "ResetCounter", "RetrieveCount"),
)


def _create_mutex(reader: Reader, step: Step) -> None:
    """Make a blob that only AtomicIter reads, and ignores."""
    reader.write(step.proto.output[0], Opaque())


def _iter(reader: Reader, step: Step) -> None:
    """Add 1 to the last input, or to the output where there is no input; that begins at 0."""
    blob = step.proto.output[0]
    if step.proto.input:
        count = reader.tensor(step.proto, step.proto.input[-1])
    else:
        held = reader.content(blob)
        count = held if isinstance(held, ir.Value) else reader.op.constant(np.zeros(1, np.int64))
    reader.write(blob, reader.op.Add(count, 1))


def _create_counter(reader: Reader, step: Step) -> None:
    """Make a counter."""
    reader.write(step.proto.output[0], _first_count(reader, step))


def _count_up(reader: Reader, step: Step) -> None:
    """Return the count, then add 1."""
    count = _count(reader, step)
    reader.write(step.proto.output[0], count)
    reader.write(step.proto.input[0], reader.op.Add(count, 1))


def _count_down(reader: Reader, step: Step) -> None:
    """Tell whether the count is 0 or less, then subtract 1."""
    count = _count(reader, step)
    reader.write(step.proto.output[0], reader.op.LessOrEqual(count, 0))
    reader.write(step.proto.input[0], reader.op.Sub(count, 1))


def _check_counter_done(reader: Reader, step: Step) -> None:
    """Tell whether the count is 0 or less."""
    reader.write(step.proto.output[0], reader.op.LessOrEqual(_count(reader, step), 0))


def _reset_counter(reader: Reader, step: Step) -> None:
    """Set the count to init_count; return what it was, if that is wanted."""
    if step.proto.output:
        reader.write(step.proto.output[0], _count(reader, step))
    reader.write(step.proto.input[0], _first_count(reader, step))


def _retrieve_count(reader: Reader, step: Step) -> None:
    """Return the count."""
    reader.write(step.proto.output[0], _count(reader, step))


def _count(reader: Reader, step: Step) -> ir.Value:
    return reader.tensor(step.proto, step.proto.input[0])


def _first_count(reader: Reader, step: Step) -> ir.Value:
    return reader.op.constant(np.int64(step.args.int("init_count", 0)))


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

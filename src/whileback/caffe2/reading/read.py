"""`read`: from a net to an ONNX model that computes what the net computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from whileback.caffe2 import operators as _registered  # noqa: F401
from whileback.caffe2.operators.registry import lowerings
from whileback.caffe2.reading import counters as _counters  # noqa: F401
from whileback.caffe2.reading import recurrent_gradient as _recurrent  # noqa: F401
from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.reader import Reader, State, controls
from whileback.errors import ArgumentError, UnsupportedError, nearest
from whileback.formats.caffe2.arguments import subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef
from whileback.graph.cleanup import clean
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.origin import ORIGIN
from whileback.graph.scopes import walk
from whileback.graph.shapes import Shapes, forget_symbolic_data

__all__ = ["Reading", "TensorSpec", "read"]

OPSET = 21
IR_VERSION = 10


@dataclass(frozen=True)
class TensorSpec:
    """The type and the shape of an input; a name stands for a size that may vary.

    `shape` is None where even the rank is not known.
    """

    dtype: ir.DataType
    shape: Sequence[int | str] | None

    @classmethod
    def of(cls, array: np.ndarray) -> TensorSpec:
        """Return the type and the shape of an array; one of strings has dtype object."""
        if array.dtype.kind in "OSU":
            return cls(ir.DataType.STRING, array.shape)
        return cls(ir.DataType.from_numpy(array.dtype), array.shape)


@dataclass(frozen=True)
class Reading:
    """A model, and the name that each blob's last value has among its outputs."""

    model: ir.Model
    outputs: Mapping[str, str]


def read(
    net: NetDef,
    inputs: Mapping[str, TensorSpec],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] | None = None,
) -> Reading:
    """Return a model that computes what a net computes.

    The first version of an input blob is called as the blob. Of the other versions the last one
    is, where no input is called so; all others are `blob@1`, `blob@2` …

    Args:
        net: the net, with nets inside it.
        inputs: the blobs that are given before the net runs.
        constants: blobs that are given once and for all; they become initializers.
        outputs: the blobs to return; by default the net's `external_output`, or else all that it
            writes.

    Raises:
        NetDefError: the net is malformed.
        UnsupportedError: operators that cannot be read; all are listed, with their counts.
        ArgumentError: an unknown output.
    """
    check_readable(net)
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=net.name or "net")
    names = Names([*inputs, *(constants or {})])
    op = Emitter(graph, names, Shapes(graph.opset_imports))
    reader = Reader(op, {}, {})
    for name, spec in inputs.items():
        value = ir.Value(name=name, type=ir.TensorType(spec.dtype))
        value.shape = None if spec.shape is None else ir.Shape(spec.shape)
        graph.inputs.append(value)
        reader.write(name, value)
    for name, array in (constants or {}).items():
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), const_value=tensor)
        value.shape = ir.Shape(array.shape)
        graph.register_initializer(value)
        reader.write(name, value)
    given = dict(reader.state)
    reader.run(net)
    found = _outputs(reader, net, given, outputs)
    return _finished(op, found)


def _operators(net: NetDef) -> Iterator[str]:
    for op in net.op:
        yield op.type
        for _, inner in subnets(op):
            yield from _operators(inner)


def check_readable(net: NetDef) -> None:
    """Refuse a net with operators that cannot be read, naming all of them.

    Raises: UnsupportedError.
    """
    missing = Counter(t for t in _operators(net) if t not in lowerings and t not in controls)
    if missing:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
        raise UnsupportedError(
            f"Net '{net.name}' has {sum(missing.values())} operators of {len(missing)} types that "
            f"cannot be read: {listed}."
        )


def _outputs(
    reader: Reader, net: NetDef, given: State, wanted: Sequence[str] | None
) -> dict[str, ir.Value]:
    state, cells = reader.state, list(reader.workspace.items())
    changed = [name for name, cell in cells if state.get(cell) is not given.get(cell)]
    written = dict.fromkeys([*(name for op in net.op for name in op.output), *changed])
    found: dict[str, ir.Value] = {}
    for name in wanted or net.external_output or written:
        content = reader.content(name)
        if isinstance(content, ir.Value):
            found[name] = content
        elif wanted:
            raise ArgumentError(
                f"Net '{net.name}' leaves no tensor in blob '{name}'; {nearest(name, written)}"
            )
    return found


def _finished(op: Emitter, found: dict[str, ir.Value]) -> Reading:
    """Make the blobs outputs of the model, each one a value of its own."""
    graph = op.graph
    op.blob = ""
    results = {name: value for name, value in zip(found, op.own(found.values()), strict=True)}
    graph.outputs.extend(results.values())
    for name, value in results.items():
        value.name = op.names.fresh(name) if value.name != name else name
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="whileback")
    forget_symbolic_data(graph)
    given_symbols(graph)
    clean(model)
    for node in walk(graph):
        node.metadata_props.pop(ORIGIN, None)
    cleaned = zip(results, graph.outputs, strict=True)
    return Reading(model, {name: str(value.name) for name, value in cleaned})

"""`read`: from a net to an ONNX model that computes what the net computes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import onnx_ir as ir

from whileback.caffe2 import operators as _registered  # noqa: F401
from whileback.caffe2.arrays import blob_tensor
from whileback.caffe2.operators.registry import lowerings
from whileback.caffe2.reading import branches as _branches  # noqa: F401
from whileback.caffe2.reading import counters as _counters  # noqa: F401
from whileback.caffe2.reading import recurrent_gradient as _recurrent  # noqa: F401
from whileback.caffe2.reading import whiles as _whiles  # noqa: F401
from whileback.caffe2.reading.contents import Clash
from whileback.caffe2.reading.emitter import LARGEST_SIZE, Emitter
from whileback.caffe2.reading.nets import Block, parse
from whileback.caffe2.reading.reader import Reader, Session, controls
from whileback.caffe2.reading.scopes import reuses
from whileback.caffe2.reading.trim import trim
from whileback.errors import ArgumentError, NetDefError, UnsupportedError, nearest
from whileback.formats.caffe2.caffe2_pb2 import NetDef
from whileback.graph.cleanup import clean
from whileback.graph.dims import given_symbols
from whileback.graph.names import Names
from whileback.graph.origin import ORIGIN
from whileback.graph.scopes import definitions, walk
from whileback.graph.shapes import Shapes, forget_symbolic_data

__all__ = ["BLOBS_KEY", "Reading", "TensorSpec", "read"]

OPSET = 21
IR_VERSION = 10
# Where a model remembers which value is the last one of each blob.
BLOBS_KEY = "whileback.blobs"


@dataclass(frozen=True)
class TensorSpec:
    """The type and the shape of an input; a name stands for a size that may vary.

    `shape` is None where even the rank is not known.

    Raises: ArgumentError if the type is none, or a size is no number from 0 on and no name.
    """

    dtype: ir.DataType
    shape: Sequence[int | str] | None

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, ir.DataType):
            raise ArgumentError(f"{self.dtype!r} is no type; give one such as ir.DataType.FLOAT.")
        for dim in self.shape or ():
            is_size = isinstance(dim, Integral) and 0 <= dim <= LARGEST_SIZE
            if not is_size and not (isinstance(dim, str) and dim):
                raise ArgumentError(
                    f"{dim!r} is no size of an input; give a number from 0 on, or a name if it "
                    "may vary."
                )

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
    *,
    keep_unused_inputs: bool = False,
) -> Reading:
    """Return a model that computes what a net computes.

    An input is called as its blob. What is written later is called `blob@1`, `blob@2` …, the last
    one `blob` if no input is called so. The metadata of the model have, under "whileback.blobs",
    the name of each blob's last value.

    Args:
        net: the net, with nets inside it.
        inputs: the blobs that are given before the net runs.
        constants: blobs that are given once and for all; they become initializers.
        outputs: the blobs to return; by default the net's `external_output`, or else all that it
            writes.
        keep_unused_inputs: whether blobs that the net does not read are inputs of the model.

    Raises:
        NetDefError: the net is malformed.
        UnsupportedError: operators that cannot be read; all are listed, with their counts.
        ArgumentError: an unknown output.
    """
    block = parse(net)
    _check_readable(block)
    reader = _read(block, inputs, constants or {})
    found = _outputs(reader, block, outputs)
    return _finished(reader, found, keep_unused_inputs)


def _read(
    block: Block, inputs: Mapping[str, TensorSpec], constants: Mapping[str, np.ndarray]
) -> Reader:
    """Return a reader that has run the net: again and again until it keeps all that it needs.

    What goes wrong may do so only because something was not kept.
    """
    session = Session(reuses=any(map(reuses, block.walk())))
    while True:
        reader = _begun(session, block, inputs, constants)
        try:
            reader.run(block)
        except (NetDefError, UnsupportedError):
            if session.is_complete():
                raise
            continue
        if session.is_complete():
            return reader


def _check_readable(block: Block) -> None:
    """Refuse a net with operators that cannot be read, naming all of them.

    Raises: UnsupportedError.
    """
    types = (step.proto.type for step in block.walk())
    missing = Counter(t for t in types if t not in lowerings and t not in controls)
    if missing:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
        raise UnsupportedError(
            f"Net '{block.name}' has {sum(missing.values())} operators of {len(missing)} types "
            f"that cannot be read: {listed}."
        )


def _begun(
    session: Session,
    block: Block,
    inputs: Mapping[str, TensorSpec],
    constants: Mapping[str, np.ndarray],
) -> Reader:
    """Return a reader of a new graph, in which the blobs are that are given."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=block.name or "net")
    blobs = (name for step in block.walk() for name in (*step.proto.input, *step.proto.output))
    op = Emitter(graph, Names([*inputs, *constants, *blobs]), Shapes(graph.opset_imports))
    session.begin(graph, [*inputs, *constants])
    reader = Reader(op, session)
    for name, spec in inputs.items():
        value = ir.Value(name=name, type=ir.TensorType(spec.dtype))
        value.shape = None if spec.shape is None else ir.Shape(spec.shape)
        graph.inputs.append(value)
        reader.state[reader.cell(name)] = value
    for name, array in constants.items():
        tensor = blob_tensor(name, array)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), const_value=tensor)
        value.shape = ir.Shape(array.shape)
        graph.register_initializer(value)
        reader.state[reader.cell(name)] = value
    op.shapes.reserve(graph)
    op.find_sizes()
    return reader


def _outputs(reader: Reader, block: Block, wanted: Sequence[str] | None) -> dict[str, ir.Value]:
    """Return the blobs to return, with what they hold."""
    written = [*reader.session.versions]
    found: dict[str, ir.Value] = {}
    for name in wanted or block.outputs or written:
        content = reader.content(name)
        if isinstance(content, ir.Value):
            found[name] = content
        elif wanted and isinstance(content, Clash):
            raise UnsupportedError(
                f"Net '{block.name}' leaves {content.types} in blob '{name}', depending on how a "
                "condition or a loop went; an output of a model has one type."
            )
        elif wanted:
            raise ArgumentError(
                f"Net '{block.name}' leaves no tensor in blob '{name}'; {nearest(name, written)}"
            )
    return found


def _finished(reader: Reader, found: dict[str, ir.Value], keep_unused_inputs: bool) -> Reading:
    """Make the blobs outputs of the model, each one a value of its own."""
    op, graph = reader.op, reader.op.graph
    op.blob = ""
    results = dict(zip(found, op.own(found.values()), strict=True))
    graph.outputs.extend(results.values())
    blobs = _named(reader, results)
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="whileback")
    forget_symbolic_data(graph)
    given_symbols(graph)
    trim(graph)
    clean(model)
    for node in walk(graph):
        node.metadata_props.pop(ORIGIN, None)
    for value in [] if keep_unused_inputs else [v for v in graph.inputs if not v.uses()]:
        graph.inputs.remove(value)
    there = {value.name for value in definitions(graph)}
    kept = {blob: name for blob, name in blobs.items() if name in there}
    model.metadata_props[BLOBS_KEY] = json.dumps(kept)
    return Reading(model, {blob: blobs[blob] for blob in results})


def _named(reader: Reader, results: dict[str, ir.Value]) -> dict[str, str]:
    """Call the versions of all blobs as they shall be called; return the names of the last ones."""
    given, taken = reader.session.given, set(results.values())
    names = {blob: blob for blob in given}
    for blob in {**reader.session.versions, **results}:
        values = list(reader.session.versions.get(blob, []))
        if blob in results:
            values[-1:] = [results[blob]]
            taken.discard(results[blob])
        for number, value in enumerate(values, start=1):
            if value.producer() is not None and value not in taken:
                is_plain = number == len(values) and blob not in given
                value.name = blob if is_plain else reader.op.names.fresh(f"{blob}@{number}")
                taken.add(value)
        names[blob] = str(values[-1].name)
    return names

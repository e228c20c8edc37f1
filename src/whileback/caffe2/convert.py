"""`convert`: from Caffe2's files to an ONNX model with its weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike

import numpy as np
import onnx
import onnx_ir as ir

from whileback.caffe2.arrays import blob_array
from whileback.caffe2.reading import TensorSpec, read
from whileback.caffe2.reading.misfits import failure
from whileback.caffe2.reading.nets import parse
from whileback.caffe2.reading.read import BLOBS_KEY
from whileback.engines import compile
from whileback.errors import ArgumentError, EngineError, NetDefError, nearest
from whileback.formats import caffe2, to_proto
from whileback.formats.caffe2.arguments import subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef

__all__ = ["convert", "initial_blobs", "last_versions", "to_model"]

Path = str | PathLike[str]
Net = NetDef | caffe2.Predictor | Path
Init = NetDef | Mapping[str, np.ndarray] | Path
Spec = TensorSpec | Sequence[int | str] | np.ndarray


def convert(
    net: Net,
    init: Init | Sequence[Init] = (),
    *,
    inputs: Mapping[str, Spec] | None = None,
    outputs: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """Return an ONNX model that computes what a net computes.

    Args:
        net: a net, a predictor export, or the path of one (`.pb`, `.pbtxt`, `.minidb`).
        init: what fills the net's weights: nets, which are run, files of nets or of blobs, or
            arrays by name; one or several. What they write becomes initializers.
        inputs: for the blobs that are given at run time a shape (FLOAT is meant; a name stands for
            a size that may vary), a `TensorSpec`, or an array of the type and shape. Blobs that
            are neither here nor in `init` become inputs, too: FLOAT of unknown shape.
        outputs: the blobs to return; by default the net's `external_output`, or else all that it
            writes.

    Raises:
        NetDefError: a net is malformed, or a shape must be known.
        UnsupportedError: operators that cannot be read; all are listed, with their counts.
        ArgumentError: a name is unknown, or the model would have no input.
        FormatError: a file cannot be read.

    >>> model = convert("predict_net.pb", "init_net.pb",
    ...                 inputs={"data": (1, 3, 224, 224)})  # doctest: +SKIP
    """
    return to_proto(to_model(net, init, inputs=inputs, outputs=outputs))


def to_model(
    net: Net,
    init: Init | Sequence[Init] = (),
    *,
    inputs: Mapping[str, Spec] | None = None,
    outputs: Sequence[str] | None = None,
) -> ir.Model:
    """Return the model of `convert` as an ir.Model."""
    predictor = _opened(net)
    parse(predictor.net)
    specs = {name: _spec(each) for name, each in (inputs or {}).items()}
    constants = dict(predictor.blobs)
    for each in (*predictor.init_nets, *_listed(init)):
        constants.update(initial_blobs(each))
    for name in (*specs, *predictor.inputs):
        constants.pop(name, None)
    read_first = list(dict.fromkeys(_read_first(predictor.net)))
    _check_names(predictor.net, read_first, specs)
    for name in read_first:
        if name not in constants:
            specs.setdefault(name, TensorSpec(ir.DataType.FLOAT, None))
    used = {name: array for name, array in constants.items() if name in read_first}
    if used and not specs:
        raise ArgumentError(
            f"Net '{predictor.net.name}' would have no input: its init fills all that it reads, "
            f"{', '.join(map(repr, read_first))}. Name its inputs, with their shapes: "
            "inputs={'data': (1, 3, 224, 224)} (--input data=1,3,224,224)."
        )
    return read(predictor.net, specs, used, outputs or predictor.outputs or None).model


def last_versions(model: onnx.ModelProto | ir.Model) -> dict[str, str]:
    """Return what the last value of each blob is called in a model made of a net.

    Empty for any other model.

    >>> net = NetDef(name="n", external_output=["x"])
    >>> _ = net.op.add(type="Relu", input=["x"], output=["x"])
    >>> last_versions(convert(net))
    {'x': 'x@1'}
    """
    if isinstance(model, ir.Model):
        metadata: Mapping[str, str] = model.metadata_props
    else:
        metadata = {entry.key: entry.value for entry in model.metadata_props}
    found: dict[str, str] = json.loads(metadata.get(BLOBS_KEY, "{}"))
    return found


def initial_blobs(init: Init) -> dict[str, np.ndarray]:
    """Return what an init net leaves in its blobs, or the blobs of a file.

    Raises: as `convert`; EngineError if the net must be run and ONNX Runtime is not installed.
    """
    if isinstance(init, Mapping):
        return {name: blob_array(name, value) for name, value in init.items()}
    if isinstance(init, NetDef):
        return _run(init)
    try:
        net = caffe2.load(init)
    except NetDefError:
        return caffe2.load_blobs(init)
    return _run(net)


def _run(net: NetDef) -> dict[str, np.ndarray]:
    """Return what the net computes from nothing; constants need no runtime."""
    reading = read(net, {})
    values = {str(value.name): _constant(value) for value in reading.model.graph.outputs}
    found = {name: array for name, array in values.items() if array is not None}
    if len(found) < len(values):
        try:
            found = compile(reading.model)()
        except EngineError as error:
            raise failure(parse(net), error) from error
    return {blob: found[name] for blob, name in reading.outputs.items()}


def _constant(value: ir.Value) -> np.ndarray | None:
    """Return what a value holds in every run, if that is known."""
    producer = value.producer()
    source = value if producer is None else producer.inputs[0] if producer.inputs else None
    copied = producer is None or producer.op_type == "Identity"
    if source is None or source.const_value is None or not copied:
        return None
    return source.const_value.numpy()


def _opened(net: Net) -> caffe2.Predictor:
    if isinstance(net, caffe2.Predictor):
        return net
    if isinstance(net, NetDef):
        return caffe2.Predictor(net)
    if str(net).endswith(".minidb"):
        return caffe2.load_predictor(net)
    return caffe2.Predictor(caffe2.load(net))


def _listed(init: Init | Sequence[Init]) -> Sequence[Init]:
    if isinstance(init, (NetDef, Mapping, str, PathLike)):
        return [init]
    return init


def _spec(each: Spec) -> TensorSpec:
    if isinstance(each, TensorSpec):
        return each
    if isinstance(each, np.ndarray):
        return TensorSpec.of(each)
    return TensorSpec(ir.DataType.FLOAT, each)


def _read_first(net: NetDef) -> Iterator[str]:
    """Yield the blobs that the net reads before it writes them."""
    written: set[str] = set()
    for op in net.op:
        for name in op.input:
            if name not in written:
                yield name
        if op.type != "Do":
            for _, inner in subnets(op):
                yield from (name for name in _read_first(inner) if name not in written)
        written.update(op.output)


def _check_names(net: NetDef, known: Sequence[str], specs: Mapping[str, TensorSpec]) -> None:
    for name in specs:
        if name not in known:
            raise ArgumentError(f"Net '{net.name}' reads no blob '{name}'; {nearest(name, known)}")

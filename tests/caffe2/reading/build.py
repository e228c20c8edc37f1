"""Builds nets with nets inside them, and reads and runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whileback import compile
from whileback.caffe2.reading import Reading, TensorSpec, read
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

Arrays = Mapping[str, Any]


def op(op_type: str, inputs: str = "", outputs: str = "", **args: Any) -> OperatorDef:
    """An operator; blobs are separated by blanks."""
    made = OperatorDef(type=op_type, input=inputs.split(), output=outputs.split())
    for name, value in args.items():
        add_argument(made, name, value)
    return made


def net(*ops: OperatorDef, name: str = "net", inputs: str = "", outputs: str = "") -> NetDef:
    """A net."""
    return NetDef(name=name, op=ops, external_input=inputs.split(), external_output=outputs.split())


def do(scope: str, body: NetDef, bound: Mapping[str, str], **args: Any) -> OperatorDef:
    """A `Do` whose net has, under the names that are keys, the blobs that are values."""
    outer = list(dict.fromkeys(bound.values()))
    indices = [outer.index(each) for each in bound.values()]
    made = op("Do", " ".join([*outer, scope]), scope, net=body)
    add_argument(made, "inner_blobs", list(bound))
    add_argument(made, "outer_blobs_idx", indices)
    for name, value in args.items():
        add_argument(made, name, value)
    return made


def back(scope: str, body: NetDef, bound: Mapping[str, str]) -> OperatorDef:
    """A gradient `Do`."""
    made = do(scope, body, bound)
    made.is_gradient_op = True
    return made


def arrays(**values: Any) -> dict[str, np.ndarray]:
    """Arrays: Python's floats become FLOAT, integers INT32."""
    kinds = {float: np.float32, int: np.int32}
    return {name: np.array(v, kinds.get(type(v))) for name, v in values.items()}


def reading(made: NetDef, feeds: Arrays, **options: Any) -> Reading:
    """Read a net for its feeds."""
    specs = {
        name: each if isinstance(each, TensorSpec) else TensorSpec.of(each)
        for name, each in feeds.items()
    }
    return read(made, specs, **options)


def run(made: NetDef, feeds: Arrays, **options: Any) -> dict[str, np.ndarray]:
    """What a net leaves in its blobs."""
    found = reading(made, feeds, **options)
    model = compile(found.model)
    results = model({name: feeds[name] for name in model.inputs})
    return {blob: results[name] for blob, name in found.outputs.items()}

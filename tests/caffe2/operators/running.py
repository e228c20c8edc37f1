"""Reads and runs one operator, or says why it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from whileback import compile
from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

Arrays = Mapping[str, np.ndarray]


def specs(feeds: Arrays) -> dict[str, TensorSpec]:
    """The types and shapes of arrays."""
    return {name: TensorSpec.of(array) for name, array in feeds.items()}


def run(
    op: OperatorDef, feeds: Arrays, given: Mapping[str, TensorSpec] | None = None
) -> list[np.ndarray]:
    """The results of an operator that is read for its feeds, or for the types and shapes given."""
    reading = read(NetDef(name="net", op=[op]), given or specs(feeds))
    model = compile(reading.model)
    results = model({name: feeds[name] for name in model.inputs})
    return [results[reading.outputs[name]] for name in op.output]


def refusal(
    ops: OperatorDef | Sequence[OperatorDef], given: Arrays | Mapping[str, TensorSpec]
) -> str:
    """What is said to operators that are refused when they are read."""
    ops = [ops] if isinstance(ops, OperatorDef) else ops
    known = {k: v if isinstance(v, TensorSpec) else TensorSpec.of(v) for k, v in given.items()}
    with pytest.raises((NetDefError, UnsupportedError)) as info:
        read(NetDef(name="net", op=ops), known)
    return str(info.value)

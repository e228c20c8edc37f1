"""What the commands do with Caffe2's files; imported by those alone that are given one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

import whileback
from whileback import caffe2
from whileback.caffe2.convert import to_model
from whileback.cli.arrays import load_arrays
from whileback.errors import ArgumentError, nearest

__all__ = [
    "check_recorded",
    "gradient",
    "last_versions",
    "open_model",
    "read_shapes",
    "run",
]


def open_model(arguments: argparse.Namespace, inputs: Mapping[str, Any] | None = None) -> ir.Model:
    """Return the model that a file is converted to; `inputs` tell their types and shapes."""
    specs = read_shapes(arguments.input)
    specs |= {name: caffe2.TensorSpec.of(_array(value)) for name, value in (inputs or {}).items()}
    return to_model(arguments.model, arguments.init, inputs=specs)


def last_versions(arguments: argparse.Namespace, model: ir.Model) -> list[str]:
    """Return the values that `--of` names: of a blob of a net, what it holds at the end."""
    known = caffe2.last_versions(model)
    return [known.get(name, name) for name in arguments.of]


def read_shapes(words: Iterable[str]) -> dict[str, caffe2.TensorSpec]:
    """Return the inputs of words such as `data=1,3,224,224`, `ids=INT32:N` and `x=FLOAT:`.

    Raises: ArgumentError if a word is none of these.
    """
    return dict(_read_shape(word) for word in words)


def _read_shape(word: str) -> tuple[str, caffe2.TensorSpec]:
    name, equals, value = word.partition("=")
    kind, colon, dims = value.rpartition(":")
    if not (name and equals and value):
        raise ArgumentError(
            f"--input {word!r} is not of the form NAME=SHAPE, such as data=1,3,224,224, "
            "ids=INT32:N,5, or x=FLOAT: for a single number."
        )
    dtypes = ir.DataType.__members__
    if colon and kind.upper() not in dtypes:
        raise ArgumentError(
            f"--input {word!r}: there is no type {kind!r}; {nearest(kind.upper(), dtypes)}"
        )
    shape = [int(dim) if dim.isdigit() else dim for dim in dims.split(",") if dim]
    return name, caffe2.TensorSpec(dtypes[kind.upper() or "FLOAT"], shape)


def _array(value: Any) -> np.ndarray:
    """Return a value as an array; numbers typed in are FLOAT or INT64."""
    if isinstance(value, np.ndarray):
        return value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def run(arguments: argparse.Namespace, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a net in a workspace, and return its results by blob."""
    workspace = caffe2.Workspace()
    for init in arguments.init:
        for name, array in caffe2.initial_blobs(init).items():
            workspace.feed(name, array)
    for name, value in inputs.items():
        workspace.feed(name, value)
    net = caffe2.load(arguments.model)
    workspace.run(net)
    written = dict.fromkeys(name for op in net.op for name in op.output)
    tensors = set(workspace.tensors())
    wanted = [name for name in net.external_output or written if name in tensors]
    return {name: workspace.fetch(name) for name in wanted}


def gradient(arguments: argparse.Namespace) -> int:
    """Write the net with its gradient operators, as a net, and say what was rewritten."""
    net, found = caffe2.add_gradient_operators(
        caffe2.load(arguments.model), arguments.of, wrt=arguments.wrt
    )
    caffe2.save(net, arguments.output, overwrite=arguments.force)
    for sentence in found.rewritten:
        print(f"note: {sentence}", file=sys.stderr)
    for blob in arguments.wrt:
        print(f"{blob} : {found[blob]}")
    return 0


def check_recorded(model: ir.Model, path: str) -> list[str]:
    """Compare a model with recorded inputs and outputs; return a line for each output.

    Raises: ArgumentError if an output differs, or nothing can be compared.
    """
    recorded = load_arrays(Path(path))
    compiled = whileback.compile(model)
    missing = [n for n in compiled.inputs if n not in recorded and n not in compiled.defaults]
    if missing:
        raise ArgumentError(
            f"--check: '{path}' holds no input '{missing[0]}'; {nearest(missing[0], recorded)}"
        )
    results = compiled({name: recorded[name] for name in compiled.inputs if name in recorded})
    lines, wrong = [], []
    for name, got in results.items():
        if name not in recorded:
            continue
        same, line = _compare(name, got, recorded[name])
        lines.append(line)
        if not same:
            wrong.append(line)
    if wrong or not lines:
        reason = "; ".join(wrong) if wrong else f"it holds none of the outputs {list(results)}"
        raise ArgumentError(f"--check: the model does not give what '{path}' holds: {reason}")
    return lines


def _compare(name: str, got: np.ndarray, expected: np.ndarray) -> tuple[bool, str]:
    if got.shape != expected.shape:
        return False, f"{name} has the shape {list(got.shape)}, not {list(expected.shape)}"
    if expected.dtype.kind not in "fc":
        same = bool(np.array_equal(got, expected))
        return same, f"{name} is {'the same' if same else 'another'}"
    scale = float(np.abs(expected).max(initial=0))
    same = np.allclose(got, expected, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
    worst = float(np.abs(got - expected).max(initial=0))
    return same, f"{name} differs by at most {worst:.2g}, of {scale:.3g}"

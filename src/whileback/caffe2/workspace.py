"""`Workspace`: blobs by name, and nets that run on them, one after the other, as in Caffe2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from whileback.caffe2.arrays import blob_array
from whileback.caffe2.plan import run_plan
from whileback.caffe2.reading import Reading, TensorSpec, read
from whileback.caffe2.reading.misfits import failure
from whileback.caffe2.reading.nets import parse
from whileback.engines import Compiled, compile
from whileback.errors import ArgumentError, EngineError, NetDefError, nearest
from whileback.formats.caffe2 import load
from whileback.formats.caffe2.arguments import label, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef, PlanDef

__all__ = ["Workspace"]

# Their outputs keep what they hold, or go on from it, in some runs.
_KEEPING = frozenset({"Do", "If", "Iter", "While"})


class Workspace:
    """Blobs by name. Nets read and overwrite them; what they write is there for the next net.

    A net is compiled by ONNX Runtime when it runs for the first time, and again when it runs with
    blobs of other types or shapes.

    >>> ws = Workspace()
    >>> ws.feed("x", np.array([1, -2, 3], np.float32))
    >>> ws.run(NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])]))
    >>> ws.fetch("y")
    array([1., 0., 3.], dtype=float32)
    >>> ws.blobs(), "z" in ws
    (['x', 'y'], False)
    """

    def __init__(self) -> None:
        self._tensors: dict[str, np.ndarray] = {}
        self._others: dict[str, str] = {}
        self._nets: dict[bytes, _Net] = {}

    def feed(self, name: str, value: Any) -> None:
        """Put a copy of an array, or of a list of numbers or of strings, into a blob.

        An array keeps its type; Python's floats become FLOAT, its integers INT64. Byte strings
        are read as UTF-8.

        Raises: ArgumentError if the value is no such thing.

        >>> ws = Workspace()
        >>> ws.feed("words", ["one", "two"])
        >>> ws.fetch("words").tolist()
        ['one', 'two']
        """
        self._tensors[name] = blob_array(name, value)
        self._others.pop(name, None)

    def fetch(self, name: str) -> np.ndarray:
        """Return a copy of the tensor in a blob; strings come in an array of objects.

        Raises: ArgumentError if there is no such blob, or if it holds no tensor.
        """
        if name in self._others:
            raise ArgumentError(
                f"Blob '{name}' holds no tensor: {self._others[name]} put none there."
            )
        if name not in self._tensors:
            raise ArgumentError(
                f"The workspace has no blob '{name}'; {nearest(name, self.blobs())}"
            )
        return self._tensors[name].copy()

    def blobs(self) -> list[str]:
        """Return the names of all blobs, in alphabetical order."""
        return sorted([*self._tensors, *self._others])

    def tensors(self) -> list[str]:
        """Return the names of the blobs that hold tensors, in alphabetical order."""
        return sorted(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors or name in self._others

    def run(self, net: NetDef | PlanDef | str | PathLike[str]) -> None:
        """Run a net, given as itself or as a file, or the steps of a plan.

        Raises:
            ArgumentError: the net reads a blob that the workspace does not have.
            UnsupportedError: operators that cannot be run; all are listed, with their counts.
            NetDefError: the net is malformed, or does not fit its blobs.
            EngineError: the runtime failed, and does not tell where. After any error the blobs
                are what they were before the net.

        A net that trains is run as often as it takes:

        >>> step = NetDef(op=[
        ...     OperatorDef(type="Iter", input=["step"], output=["step"]),
        ...     OperatorDef(type="Mul", input=["w", "shrink"], output=["w"])])
        >>> ws = Workspace()
        >>> ws.feed("step", [0])
        >>> ws.feed("w", [8.0])
        >>> ws.feed("shrink", [0.5])
        >>> for _ in range(3):
        ...     ws.run(step)
        >>> ws.fetch("w").item(), ws.fetch("step").item()
        (1.0, 3)
        """
        if isinstance(net, PlanDef):
            run_plan(net, self.run, self._is_true)
        else:
            self._run(net if isinstance(net, NetDef) else load(net))

    def _is_true(self, blob: str) -> bool:
        """Tell whether a blob that ends a step of a plan is true."""
        value = self.fetch(blob)
        if value.size != 1:
            raise NetDefError(
                f"Blob '{blob}' is 'should_stop_blob' of a step, which needs one element, but it "
                f"has the shape {list(value.shape)}."
            )
        return bool(value)

    def _run(self, net: NetDef) -> None:
        key = net.SerializeToString()
        if key not in self._nets:
            self._nets[key] = _Net(net)
        known = self._nets[key]
        self._require(known)
        try:
            program = known.program(self._tensors)
            results = program.run(self._tensors)
        except EngineError as error:
            raise failure(known.block, error) from error
        for blob, output in program.outputs.items():
            self._tensors[blob] = results[output]
            self._others.pop(blob, None)
        for blob, maker in known.writers.items():
            if blob not in self._tensors:
                self._others[blob] = maker

    def _require(self, net: _Net) -> None:
        for name, reader in net.readers.items():
            if name not in self:
                raise ArgumentError(
                    f"{reader} of net '{net.net.name}' reads blob '{name}', which the workspace "
                    f"does not have; {nearest(name, self.blobs())} Feed it, or run the net that "
                    "makes it first."
                )


@dataclass(frozen=True)
class _Program:
    """A compiled net, None if it makes no tensor, and each blob's name among its outputs."""

    model: Compiled | None
    outputs: dict[str, str]

    @classmethod
    def of(cls, reading: Reading) -> _Program:
        """Compile what was read."""
        outputs = dict(reading.outputs)
        return cls(compile(reading.model) if outputs else None, outputs)

    def run(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the tensors that the net leaves, by their names in the model."""
        if self.model is None:
            return {}
        return self.model({name: tensors[name] for name in self.model.inputs})


class _Net:
    """A net that has run, compiled for each set of types and shapes that it has run with."""

    def __init__(self, net: NetDef) -> None:
        self.block = parse(net)
        self.net = NetDef()
        self.net.CopyFrom(net)
        del self.net.external_output[:]  # What it writes is all wanted.
        self.readers: dict[str, str] = {}
        self.writers: dict[str, str] = {}
        self._read: dict[str, None] = {}
        self._programs: dict[tuple[Any, ...], _Program] = {}
        for op in net.op:
            missing = [name for name in op.input if name not in self.writers]
            self.readers.update((name, label(op)) for name in missing if name not in self.readers)
            kept = op.output if op.type in _KEEPING else ()
            names = (*missing, *_inside(op), *kept)
            self._read.update((name, None) for name in names if name not in self.writers)
            self.writers.update((name, label(op)) for name in op.output)

    def program(self, tensors: dict[str, np.ndarray]) -> _Program:
        """Return what runs on these blobs."""
        given = {name: tensors[name] for name in self._read if name in tensors}
        key = tuple((name, array.dtype, array.shape) for name, array in given.items())
        if key not in self._programs:
            specs = {name: TensorSpec.of(array) for name, array in given.items()}
            self._programs[key] = _Program.of(read(self.net, specs))
        return self._programs[key]


def _inside(op: OperatorDef) -> Iterator[str]:
    """Yield the names that operators in the nets inside an operator read and write."""
    for _, net in subnets(op):
        for inner in net.op:
            yield from (*inner.input, *inner.output, *_inside(inner))

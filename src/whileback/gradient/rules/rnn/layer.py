"""From a recurrent node to its directions and back: layouts, lengths, absent inputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.rnn.activations import activations
from whileback.gradient.rules.rnn.direction import (
    Dim,
    Direction,
    Gradients,
    Input,
    Values,
    shaped,
    shifted,
)

__all__ = ["Layer"]

# Where the axes of `layout=1` go, for X and the states, and for Y; and where they come from.
SWAPPED = [1, 0, 2]
TIME_FIRST, BATCH_FIRST = [1, 2, 0, 3], [2, 0, 1, 3]


class Layer:
    """A recurrent node with time as its first axis."""

    def __init__(
        self, op: GradientBuilder, node: ir.Node, gates: int, defaults: tuple[str, ...]
    ) -> None:
        self.op = op
        self.node = node
        self.gates = gates
        self.kind = node.attributes.get_string("direction", "forward")
        self.count = 2 if self.kind == "bidirectional" else 1
        self.hidden = node.attributes.get_int("hidden_size", 0)
        self.batch_first = bool(node.attributes.get_int("layout", 0))
        self.functions = activations(node, defaults, self.count)
        self.dims = _dims(node, self.batch_first)
        X = self._moved(self.input(Input.X), SWAPPED)
        self.lengths = self._lengths()
        self.valid = self._valid(X)
        self.X = X if self.valid is None else op.Where(self.valid, X, 0.0)

    def input(self, which: Input) -> ir.Value:
        """Return an input that is there."""
        value = self.node.inputs[which]
        assert value is not None
        return value

    def has(self, which: Input) -> bool:
        """Tell whether the node has this input."""
        return which < len(self.node.inputs) and self.node.inputs[which] is not None

    def directions(
        self, dY: ir.Value | None, dY_h: ir.Value | None, dY_c: ir.Value | None = None
    ) -> list[Direction]:
        """Return the node's directions, each with its share of the inputs and cotangents."""
        op = self.op
        Y = self._moved(_sequence(op, self.node), TIME_FIRST)
        if dY is not None:
            dY = self._moved(dY, TIME_FIRST)
            if self.valid is not None:
                dY = op.Where(op.Unsqueeze(self.valid, [1]), dY, 0.0)
        return [self._direction(side, Y, dY, dY_h, dY_c) for side in range(self.count)]

    def gradients(self, directions: Sequence[Gradients]) -> list[ir.Value | None]:
        """Join the gradients of the directions to one for each input of the node, in order."""
        known = list(Input)[: len(self.node.inputs)]
        wanted = {which for which in known if self.node.inputs[which] in self.op.active}
        return [
            self._joined(which, [each[which]() for each in directions])
            if which in wanted and which in directions[0]
            else None
            for which in known
        ]

    def _direction(
        self,
        side: int,
        Y: ir.Value,
        dY: ir.Value | None,
        dY_h: ir.Value | None,
        dY_c: ir.Value | None,
    ) -> Direction:
        op, each, rows = self.op, len(self.functions) // self.count, self.gates * self.hidden
        reverse = self.kind == "reverse" or side == 1
        sequence = [*self.dims, self.hidden]
        h, c = self._initial(Input.INITIAL_H, side), self._initial(Input.INITIAL_C, side)
        left = shaped(self._share(Y, side, axis=1), sequence)
        if reverse and self.valid is not None:
            left = shaped(op.Where(self.valid, left, h), sequence)
        return Direction(
            op=op,
            node=self.node,
            reverse=reverse,
            hidden=self.hidden,
            dims=self.dims,
            activations=self.functions[side * each : side * each + each],
            valid=self.valid,
            X=self.X,
            W=self._share(self.input(Input.W), side),
            R=shaped(self._share(self.input(Input.R), side), [rows, self.hidden]),
            biases=self._biases(side),
            P=self._share(self.input(Input.P), side) if self.has(Input.P) else None,
            h=h,
            c=c,
            Y=left,
            found=shifted(op, left, h, reverse),
            dY=None if dY is None else shaped(self._share(dY, side, axis=1), sequence),
            dh=self._last(dY_h, side),
            dc=self._last(dY_c, side),
        )

    def _initial(self, which: Input, side: int) -> ir.Value:
        return self._state(self.input(which) if self.has(which) else None, side)

    def _share(self, value: ir.Value, side: int, axis: int = 0) -> ir.Value:
        """Return what belongs to one direction, without the axis of directions."""
        if self.count == 1:
            return self.op.Squeeze(value, [axis])
        return self.op.Gather(value, side, axis=axis)

    def _state(self, value: ir.Value | None, side: int) -> ir.Value:
        """Return a direction's initial state, or a state's cotangent; zeros if there is none."""
        op, dims = self.op, [self.dims[1], self.hidden]
        if value is not None:
            return shaped(self._share(self._moved(value, SWAPPED), side), dims)
        size = op.Concat(op.dim(self.X, 1), [self.hidden], axis=0)
        return shaped(op.Expand(op.constant(0.0, self.X.dtype), size), dims)

    def _last(self, cotangent: ir.Value | None, side: int) -> ir.Value:
        """Return the cotangent of a last state; of a sequence of no steps that is always zero."""
        dh = self._state(cotangent, side)
        if cotangent is None or self.lengths is None:
            return dh
        some = self.op.Greater(self.op.Unsqueeze(self.lengths, [1]), 0)
        return shaped(self.op.Where(some, dh, 0.0), [self.dims[1], self.hidden])

    def _biases(self, side: int) -> Values:
        if not self.has(Input.B):
            return ()
        bias = self._share(self.input(Input.B), side)
        return self.op.emit("Split", [bias], {"axis": 0, "num_outputs": 2}, 2)

    def _lengths(self) -> ir.Value | None:
        """Return the number of steps of each sequence, INT64[B]; None if all have T."""
        if not self.has(Input.SEQUENCE_LENS):
            return None
        return self.op.Cast(self.input(Input.SEQUENCE_LENS), to=int(ir.DataType.INT64))

    def _valid(self, X: ir.Value) -> ir.Value | None:
        """Return which steps are within their sequence, BOOL[T,B,1]; None if all are."""
        if self.lengths is None:
            return None
        op = self.op
        steps = op.Range(0, op.Squeeze(op.dim(X, 0), [0]), 1)
        valid = op.Less(op.Unsqueeze(steps, [1, 2]), op.Unsqueeze(self.lengths, [1]))
        return shaped(valid, [*self.dims, 1])

    def _moved(self, value: ir.Value, perm: list[int]) -> ir.Value:
        return self.op.Transpose(value, perm=perm) if self.batch_first else value

    def _joined(self, which: Input, parts: Sequence[ir.Value]) -> ir.Value:
        op = self.op
        if which == Input.X:
            total = op.add(*parts)
            assert total is not None
            return self._moved(total, SWAPPED)
        rows = [op.Unsqueeze(part, [0]) for part in parts]
        joined = rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)
        if which in (Input.INITIAL_H, Input.INITIAL_C):
            return self._moved(joined, SWAPPED)
        return joined


def _dims(node: ir.Node, batch_first: bool) -> tuple[Dim, Dim]:
    """Return the number of steps and of sequences, as symbols where nothing is known."""
    X = node.inputs[Input.X]
    shape = None if X is None else X.shape
    if shape is None:
        unknown = (ir.SymbolicDim(f"{node.name}/{each}") for each in ("steps", "sequences"))
        return next(unknown), next(unknown)
    return (shape[1], shape[0]) if batch_first else (shape[0], shape[1])


def _sequence(op: GradientBuilder, node: ir.Node) -> ir.Value:
    """Return the output Y of the node, which gets it if it lacks it."""
    Y = node.outputs[0]
    if not Y.name:
        Y.name = op.names.fresh(f"{node.name}/Y")
        op.shapes.infer(node)
    return Y

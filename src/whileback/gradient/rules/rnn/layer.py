"""From a recurrent node to its directions and back: layouts, lengths, absent inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.guard import guard
from whileback.gradient.rules.inputs import optional, required
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
from whileback.graph.recurrent import count_directions
from whileback.graph.shapes import same_dim

__all__ = ["layer_gradients"]

# How `layout=1` becomes time first: for X and the states, which goes both ways, and for Y.
SWAPPED, TIME_FIRST = [1, 0, 2], [1, 2, 0, 3]


def layer_gradients(
    op: GradientBuilder,
    node: ir.Node,
    gates: int,
    backward: Callable[[Direction], Gradients],
    received: Sequence[ir.Value | None],
) -> list[ir.Value | None]:
    """Return the gradient of each input; without steps nothing depends on any of them.

    Args:
        op: emits the operators.
        node: whose gradient it is.
        gates: how many gates its operator has.
        backward: returns the gradients of one direction.
        received: the cotangents of Y, Y_h and Y_c.
    """
    wanted = {
        which: value
        for which, value in zip(Input, node.inputs, strict=False)
        if value in op.active and which != Input.SEQUENCE_LENS and value is not None
    }

    def some(op: GradientBuilder) -> list[ir.Value]:
        layer = _Layer(op, node, gates)
        sides = [backward(each) for each in layer.directions(*received)]
        return [layer.joined(which, [side[which]() for side in sides]) for which in wanted]

    found = guard(op, _steps(op, node), some, lambda op: list(map(op.zeros_like, wanted.values())))
    gradients: dict[Input, ir.Value] = dict(zip(wanted, found, strict=True))
    return [gradients.get(which) for which, _ in zip(Input, node.inputs, strict=False)]


def _steps(op: GradientBuilder, node: ir.Node) -> ir.Value | None:
    """Return the number of steps, INT64[1]; None if there are some for sure."""
    X, axis = required(node, Input.X), node.attributes.get_int("layout", 0)
    known = X.shape is not None and isinstance(X.shape[axis], int) and X.shape[axis] != 0
    return None if known else op.dim(X, axis)


class _Layer:
    """A recurrent node with time first, whatever its layout."""

    def __init__(self, op: GradientBuilder, node: ir.Node, gates: int) -> None:
        self.op = op
        self.node = node
        self.gates = gates
        self.kind = node.attributes.get_string("direction", "forward")
        self.count = count_directions(node)
        self.hidden = node.attributes.get_int("hidden_size")
        self.batch_first = bool(node.attributes.get_int("layout", 0))
        self.activations = activations(node)
        self.dims = _dims(op, node, self.batch_first)
        X = self._moved(required(node, Input.X), SWAPPED)
        self.lengths = self._lengths()
        self.valid = self._valid(X)
        self.X = X if self.valid is None else op.Where(self.valid, X, 0.0)

    def directions(
        self, dY: ir.Value | None, dY_h: ir.Value | None, dY_c: ir.Value | None = None
    ) -> list[Direction]:
        """Return the node's directions, each with its share of the inputs and cotangents."""
        Y = self._moved(_sequence(self.op, self.node), TIME_FIRST)
        if dY is not None:
            dY = self._moved(dY, TIME_FIRST)
            if self.valid is not None:
                dY = self.op.Where(self.op.Unsqueeze(self.valid, [1]), dY, 0.0)
        return [self._direction(side, Y, dY, dY_h, dY_c) for side in range(self.count)]

    def _direction(
        self,
        side: int,
        Y: ir.Value,
        dY: ir.Value | None,
        dY_h: ir.Value | None,
        dY_c: ir.Value | None,
    ) -> Direction:
        functions = len(self.activations) // self.count
        reverse = self.kind == "reverse" or side == 1
        stack = [*self.dims, self.hidden]
        h = self._state(optional(self.node, Input.INITIAL_H), side)
        left = self._fitted(self._share(Y, side, axis=1), stack)
        if reverse and self.valid is not None:
            left = shaped(self.op.Where(self.valid, left, h), stack)
        R, P = self._share(required(self.node, Input.R), side), optional(self.node, Input.P)
        return Direction(
            op=self.op,
            node=self.node,
            reverse=reverse,
            hidden=self.hidden,
            dims=self.dims,
            activations=self.activations[side * functions : (side + 1) * functions],
            valid=self.valid,
            X=self.X,
            W=self._share(required(self.node, Input.W), side),
            R=self._fitted(R, [self.gates * self.hidden, self.hidden]),
            biases=self._biases(side),
            P=None if P is None else self._fitted(self._share(P, side), [3 * self.hidden]),
            h=h,
            c=self._state(optional(self.node, Input.INITIAL_C), side),
            Y=left,
            found=shifted(self.op, left, h, reverse),
            dY=None if dY is None else self._fitted(self._share(dY, side, axis=1), stack),
            dh=self._last(dY_h, side),
            dc=self._last(dY_c, side),
        )

    def _share(self, value: ir.Value, side: int, axis: int = 0) -> ir.Value:
        """Return what belongs to one direction, without the axis of directions."""
        if self.count == 1:
            return self.op.Squeeze(value, [axis])
        return self.op.Gather(value, side, axis=axis)

    def _fitted(self, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """Give a value the shape that it must have, whatever symbols it was declared with."""
        if value.shape is not None and not all(map(same_dim, value.shape, shape)):
            value = self.op.Reshape(value, self._size(shape))
        return shaped(value, shape)

    def _size(self, shape: Sequence[Dim]) -> ir.Value:
        """Return a shape, whose symbols are the numbers of steps and sequences, as a value."""
        axes = dict(zip(self.dims, (0, 1), strict=True))
        sizes = [dim if isinstance(dim, int) else self.op.dim(self.X, axes[dim]) for dim in shape]
        if all(isinstance(size, int) for size in sizes):
            return self.op.constant(np.array(sizes, np.int64))
        return self.op.Concat(*([s] if isinstance(s, int) else s for s in sizes), axis=0)

    def _state(self, value: ir.Value | None, side: int) -> ir.Value:
        """Return a state of one direction, or its cotangent; zeros if there is none."""
        shape = [self.dims[1], self.hidden]
        if value is not None:
            return self._fitted(self._share(self._moved(value, SWAPPED), side), shape)
        zero = self.op.constant(0, self.X.dtype)
        return shaped(self.op.Expand(zero, self._size(shape)), shape)

    def _last(self, cotangent: ir.Value | None, side: int) -> ir.Value:
        """Return the cotangent of a last state; a sequence of no steps has zeros as last state."""
        state = self._state(cotangent, side)
        if cotangent is None or self.lengths is None:
            return state
        some = self.op.Greater(self.op.Unsqueeze(self.lengths, [1]), 0)
        return shaped(self.op.Where(some, state, 0.0), state.shape or ())

    def _biases(self, side: int) -> Values:
        B = optional(self.node, Input.B)
        if B is None:
            return ()
        attributes = {"axis": 0, "num_outputs": 2}
        return self.op.emit("Split", [self._share(B, side)], attributes, outputs=2)

    def _lengths(self) -> ir.Value | None:
        """Return the number of steps of each sequence, INT64[B]; None if all have T."""
        lengths = optional(self.node, Input.SEQUENCE_LENS)
        return None if lengths is None else self.op.Cast(lengths, to=int(ir.DataType.INT64))

    def _valid(self, X: ir.Value) -> ir.Value | None:
        """Return which steps are within their sequence, BOOL[T,B,1]; None if all are."""
        if self.lengths is None:
            return None
        op = self.op
        steps = op.arange(op.dim(X, 0))
        valid = op.Less(op.Unsqueeze(steps, [1, 2]), op.Unsqueeze(self.lengths, [1]))
        return shaped(valid, [*self.dims, 1])

    def _moved(self, value: ir.Value, permutation: list[int]) -> ir.Value:
        return self.op.Transpose(value, perm=permutation) if self.batch_first else value

    def joined(self, which: Input, parts: Sequence[ir.Value]) -> ir.Value:
        """Return the gradient of an input: X serves all directions, the rest has one part each."""
        op = self.op
        if which == Input.X:
            total = parts[0] if len(parts) == 1 else op.Add(*parts)
            return self._moved(total, SWAPPED)
        rows = [op.Unsqueeze(part, [0]) for part in parts]
        joined = rows[0] if len(rows) == 1 else op.Concat(*rows, axis=0)
        is_state = which in (Input.INITIAL_H, Input.INITIAL_C)
        return self._moved(joined, SWAPPED) if is_state else joined


def _dims(op: GradientBuilder, node: ir.Node, batch_first: bool) -> tuple[Dim, Dim]:
    """Return the number of steps and of sequences, as symbols where nothing is known."""
    shape = required(node, Input.X).shape
    if shape is None:
        return op.shapes.new_dim(), op.shapes.new_dim()
    return (shape[1], shape[0]) if batch_first else (shape[0], shape[1])


def _sequence(op: GradientBuilder, node: ir.Node) -> ir.Value:
    """Return the output Y of the node, which gets it if it lacks it."""
    Y = node.outputs[0]
    if not Y.name:
        Y.name = op.names.fresh(f"{node.name}/Y")
        op.shapes.infer(node)
    return Y

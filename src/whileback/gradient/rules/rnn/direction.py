"""One direction of a recurrent node, time first and without the axis of directions.

The forward pass stays the one fused operator. The gates of all steps are computed again at once,
from X and from Y shifted by a step, and so is every derivative that no cotangent enters into. A
reverse `Scan` with as few nodes in its body as possible hands the cotangents from step to step;
the gradients of the weights are one product each of what it stacks.

Steps past the end of a sequence hand on states and cotangents, and add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.emission import emit_scan
from whileback.gradient.rules.controlflow.reverse import Row, State, Written
from whileback.gradient.rules.rnn.activations import Activation

__all__ = ["Dim", "Direction", "Gate", "Gradients", "Input", "Values", "shaped", "shifted"]

Dim = int | ir.SymbolicDim
Values = Sequence[ir.Value]
# From the states before a step, and its rows, to the states after it and the rows that it writes.
Step = Callable[[GradientBuilder, Values, Values], tuple[Values, Values]]


class Input(IntEnum):
    """The inputs of a recurrent node, by index."""

    X = 0
    W = 1
    R = 2
    B = 3
    SEQUENCE_LENS = 4
    INITIAL_H = 5
    INITIAL_C = 6
    P = 7


# What emits the gradient of each input, for those that are wanted.
Gradients = dict[Input, Callable[[], ir.Value]]


@dataclass(frozen=True)
class Gate:
    """An activation function's values at all steps, and its slopes there."""

    value: ir.Value
    slope: ir.Value

    @classmethod
    def of(cls, op: GradientBuilder, z: ir.Value, function: Activation) -> Gate:
        """Apply the function to z; a slope is not made of a value that was rounded to 16 bits."""
        wide = op.widened(z)
        value = function.value(op, wide)
        return cls(op.cast(value, z), op.cast(function.slope(op, wide, value), z))


@dataclass(frozen=True)
class Direction:
    """The tensors of one direction: T steps, B sequences, I features, H units, G gates.

    Shapes: X is [T,B,I], W [G·H,I], R [G·H,H]; `biases` are none, or those of W and R, [G·H];
    P is [3H]; h and c, the initial states, are [B,H]; Y, the states that the steps leave,
    `found`, those that they find, and dY are [T,B,H]; dh and dc, the cotangents of Y_h and Y_c,
    are [B,H]. `valid` is BOOL[T,B,1], or None if all sequences have T steps.
    """

    op: GradientBuilder
    node: ir.Node
    reverse: bool
    hidden: int
    dims: tuple[Dim, Dim]
    activations: Sequence[Activation]
    valid: ir.Value | None
    X: ir.Value
    W: ir.Value
    R: ir.Value
    biases: Values
    P: ir.Value | None
    h: ir.Value
    c: ir.Value
    Y: ir.Value
    found: ir.Value
    dY: ir.Value | None  # noqa: N815
    dh: ir.Value
    dc: ir.Value

    @property
    def clip(self) -> float:
        """The bound of what the activation functions are applied to; 0 for none."""
        return self.node.attributes.get_float("clip", 0.0)

    def product(self, stack: ir.Value, weight: ir.Value, addend: ir.Value | None) -> ir.Value:
        """Return stack·weightᵀ + addend for the rows of all steps, [T·B,·]."""
        return self.op.Gemm(self.flat(stack), weight, addend, transB=1)

    def flat(self, stack: ir.Value) -> ir.Value:
        """Return a stack [T,B,·] as the rows of all steps, [T·B,·]."""
        return self.op.Flatten(stack, axis=2)

    def stack(self, flat: ir.Value, gates: int) -> ir.Value:
        """Return the rows of all steps, [T·B,gates·H], as a stack [T,B,gates·H]."""
        op, (steps, batch), width = self.op, self.dims, gates * self.hidden
        if isinstance(batch, int):
            shape = op.constant(np.array([-1, batch, width], np.int64))
        elif isinstance(steps, int):
            shape = op.constant(np.array([steps, -1, width], np.int64))
        else:
            shape = op.Concat(op.Shape(self.X, start=0, end=2), [width], axis=0)
        return shaped(op.Reshape(flat, shape), [steps, batch, width])

    def split(self, value: ir.Value, count: int, axis: int) -> Values:
        """Return the equal parts of a value, one for each gate."""
        return self.op.emit("Split", [value], {"axis": axis, "num_outputs": count}, count)

    def activate(self, op: GradientBuilder, z: ir.Value, function: Activation) -> ir.Value:
        """Return the activation function's value at a sum, which the node may clip."""
        return function.value(op, op.Clip(z, -self.clip, self.clip) if self.clip else z)

    def gate(self, z: ir.Value, function: Activation) -> Gate:
        """Return the activation function's values at the sums of all steps, and its slopes."""
        op = self.op
        if not self.clip:
            return Gate.of(op, z, function)
        clipped = Gate.of(op, op.Clip(z, -self.clip, self.clip), function)
        inside = op.LessOrEqual(op.Abs(z), self.clip)
        return Gate(clipped.value, op.Where(inside, clipped.slope, 0.0))

    def where_valid(self, value: ir.Value, otherwise: float = 0.0) -> ir.Value:
        """Return the stack with `otherwise` at the steps past the end of a sequence."""
        return value if self.valid is None else self.op.Where(self.valid, value, otherwise)

    def scan_back(self, step: Step, starts: Values, stacks: Values) -> tuple[Values, Values]:
        """Run a step over the stacks against the direction of the layer.

        The first state is dh: the step gets it with what dY adds, and it passes the steps past
        the end of a sequence unchanged.
        """
        count = len(stacks)

        def whole(op: GradientBuilder, states: Values, rows: Values) -> tuple[Values, Values]:
            dh = states[0] if self.dY is None else op.Add(states[0], rows[count])
            after, written = step(op, [dh, *states[1:]], rows[:count])
            if self.valid is None:
                return after, written
            return [op.Where(rows[-1], after[0], dh), *after[1:]], written

        more = [stack for stack in (self.dY, self.valid) if stack is not None]
        return self.scan(whole, starts, [*stacks, *more], from_end=not self.reverse)

    def scan(
        self, step: Step, starts: Values, stacks: Values, from_end: bool
    ) -> tuple[Values, Values]:
        """Run a step over the rows of stacks; return the states after it and the stacks written."""
        op = self.op
        if self.dims[0] == 1:
            states, rows = step(op, starts, [op.Squeeze(stack, [0]) for stack in stacks])
            return states, [op.Unsqueeze(row, [0]) for row in rows]
        body = op.inside(f"{self.node.name}/grad/step")
        states = [self._in_body(each, "state", 0) for each in starts]
        rows = [self._in_body(each, "row", 1) for each in stacks]
        after, written = step(body, states, rows)
        return emit_scan(
            op,
            body,
            [State(*each) for each in zip(starts, states, after, strict=True)],
            [Row(*each, from_end=from_end) for each in zip(rows, stacks, strict=True)],
            [Written(row, 0, from_end) for row in written],
        )

    def _in_body(self, value: ir.Value, suffix: str, first_axis: int) -> ir.Value:
        """Return an input of a body that stands for a value, or for its rows."""
        shape = None if value.shape is None else ir.Shape(value.shape[first_axis:])
        name = self.op.names.fresh(f"{value.name}/{suffix}")
        return ir.Value(name=name, type=value.type, shape=shape)

    def gradients(self, dh: ir.Value, dz: ir.Value, recurrent: ir.Value | None = None) -> Gradients:
        """Return the gradients of what the sums of all steps are made of.

        Args:
            dh: that of the initial state.
            dz: those of X·Wᵀ and its biases, [T,B,G·H].
            recurrent: those of found·Rᵀ and its biases where they are others.
        """
        op, other = self.op, dz if recurrent is None else recurrent

        def dB() -> ir.Value:
            dW = op.ReduceSum(self.flat(dz), [0], keepdims=0)
            dR = dW if other is dz else op.ReduceSum(self.flat(other), [0], keepdims=0)
            return op.Concat(dW, dR, axis=0)

        return {
            Input.X: lambda: op.MatMul(dz, self.W),
            Input.W: lambda: op.Gemm(self.flat(dz), self.flat(self.X), transA=1),
            Input.R: lambda: op.Gemm(self.flat(other), self.flat(self.found), transA=1),
            Input.B: dB,
            Input.INITIAL_H: lambda: dh,
        }


def shifted(op: GradientBuilder, stack: ir.Value, initial: ir.Value, reverse: bool) -> ir.Value:
    """Return what each step finds: the row of the step before it, or the initial one."""
    first = op.Unsqueeze(initial, [0])
    if stack.shape is not None and stack.shape[0] == 1:
        return first
    if reverse:
        rows = op.Concat(op.Slice(stack, [1], [np.iinfo(np.int64).max], [0]), first, axis=0)
    else:
        rows = op.Concat(first, op.Slice(stack, [0], [-1], [0]), axis=0)
    return shaped(rows, stack.shape or ())


def shaped(value: ir.Value, dims: Sequence[Dim] | ir.Shape) -> ir.Value:
    """Set the value's shape to what is known to hold."""
    value.shape = ir.Shape(dims)
    return value

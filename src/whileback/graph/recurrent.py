"""RNN, GRU and LSTM step by step: one `Scan` over time for each direction.

The equations are those of the ONNX specification. Where a sequence is over, its state stays as it
is and its row of Y is zero; in reverse it starts at its own last element for the same reason. The
last state of a sequence of no steps is zero, as ONNX Runtime has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.shapes import same_dim

__all__ = ["DEFAULT_ACTIVATIONS", "Activation", "count_directions", "step_by_step"]

# Emits an activation function of a value.
Activation = Callable[[Builder, ir.Value], ir.Value]
Values = Sequence[ir.Value]
Dim = int | ir.SymbolicDim

_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
# The activation functions of one direction of a node that names none.
DEFAULT_ACTIVATIONS = {
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "RNN": ("Tanh",),
}


def count_directions(node: ir.Node) -> int:
    """Return how many directions a recurrent node has."""
    return 2 if node.attributes.get_string("direction", "") == "bidirectional" else 1


@dataclass(frozen=True)
class _Cell:
    """What one direction computes: weights are [G·H,I] and [G·H,H], biases a row for each gate.

    Only GRU tells the biases apart; elsewhere that of x is the sum of both.
    """

    node: ir.Node
    w: ir.Value
    r: ir.Value
    x_bias: ir.Value | None
    h_bias: ir.Value | None
    peepholes: ir.Value | None
    activations: Sequence[Activation]

    @property
    def width(self) -> int:
        """The number of gates times that of units."""
        return _GATES[self.node.op_type] * self.node.attributes["hidden_size"].as_int()

    def rows(self, op: Builder, x: ir.Value) -> ir.Value:
        """Return what all steps get of x, [T,B,G·H]: x·wᵀ + bias, in one product."""
        flat = op.Gemm(op.Flatten(x, axis=2), self.w, self.x_bias, transB=1)
        shape = op.Concat(op.dim(x, 0), op.dim(x, 1), op.dim(self.w, 0), axis=0)
        return op.Reshape(flat, shape, allowzero=1)

    def gates(self, op: Builder, h: ir.Value, addend: ir.Value | None) -> Values:
        """Return h·rᵀ and what is added to it, a value for each gate."""
        return self.split(op, op.Gemm(h, self.r, addend, transB=1))

    def split(self, op: Builder, total: ir.Value) -> Values:
        """Return a value for each gate."""
        count = _GATES[self.node.op_type]
        if count == 1:
            return [total]
        return op.emit("Split", [total], {"axis": -1, "num_outputs": count}, outputs=count)

    def activated(self, op: Builder, index: int, x: ir.Value) -> ir.Value:
        """Return an activation function of a sum, which the node may clip."""
        limit = self.node.attributes.get_float("clip", 0.0)
        return self.activations[index](op, op.Clip(x, -limit, limit) if limit else x)

    def peephole(self, op: Builder, gate: int, c: ir.Value) -> ir.Value | None:
        """Return what a gate of an LSTM sees of the cell: gates i, o, f."""
        if self.peepholes is None:
            return None
        size = self.node.attributes["hidden_size"].as_int()
        return op.Mul(op.Slice(self.peepholes, [gate * size], [(gate + 1) * size]), c)


def _rnn_step(cell: _Cell, op: Builder, row: ir.Value, h: ir.Value) -> Values:
    return [cell.activated(op, 0, *cell.gates(op, h, row))]


def _gru_step(cell: _Cell, op: Builder, row: ir.Value, h: ir.Value) -> Values:
    xz, xr, xh = cell.split(op, row)
    hz, hr, hh = cell.gates(op, h, cell.h_bias)
    z = cell.activated(op, 0, op.Add(xz, hz))
    r = cell.activated(op, 0, op.Add(xr, hr))
    if cell.node.attributes.get_int("linear_before_reset", 0):
        hidden = op.Mul(r, hh)
    else:
        hidden = cell.gates(op, op.Mul(r, h), cell.h_bias)[2]
    new = cell.activated(op, 1, op.Add(xh, hidden))
    return [op.Add(op.Mul(op.Sub(1.0, z), new), op.Mul(z, h))]


def _lstm_step(cell: _Cell, op: Builder, row: ir.Value, h: ir.Value, c: ir.Value) -> Values:
    sums = cell.gates(op, h, row)

    def gate(index: int, seen: ir.Value) -> ir.Value:
        total = op.add(sums[index], cell.peephole(op, index, seen))
        assert total is not None
        return cell.activated(op, 0, total)

    i = gate(0, c)
    coupled = cell.node.attributes.get_int("input_forget", 0)
    forget = op.Sub(1.0, i) if coupled else gate(2, c)
    new = op.Add(op.Mul(forget, c), op.Mul(i, cell.activated(op, 1, sums[3])))
    return [op.Mul(gate(1, new), cell.activations[2](op, new)), new]


_STEPS: dict[str, Callable[..., Values]] = {
    "GRU": _gru_step,
    "LSTM": _lstm_step,
    "RNN": _rnn_step,
}


class _Recurrence:
    """All inputs of a node, time first; `states` are the initial ones, [D, B, H].

    Steps of 16 bits are made in FLOAT. What the node's operator demands of shapes is declared,
    whatever else is known of them.
    """

    def __init__(self, op: Builder, node: ir.Node) -> None:
        inputs = [None if value is None else op.widened(value) for value in node.inputs]
        x, w, r, b, lengths, h, c, p = (*inputs, *[None] * 8)[:8]
        assert x is not None and w is not None
        if node.attributes.get_int("layout", 0):
            x = op.Transpose(x, perm=[1, 0, 2])
            h, c = (None if s is None else op.Transpose(s, perm=[1, 0, 2]) for s in (h, c))
        self.node, self.x, self.weights = node, x, (w, r, b, p)
        dims: Iterable[Dim] = x.shape or [op.shapes.new_dim() for _ in range(3)]
        self.steps, self.batch, self.features = dims
        self.hidden = node.attributes["hidden_size"].as_int()
        self.lengths = lengths and op.Cast(lengths, to=int(ir.DataType.INT64))
        shape = op.Concat(op.dim(w, 0), op.dim(x, 1), [self.hidden], axis=0)
        initial = [h, c] if node.op_type == "LSTM" else [h]
        zero = op.constant(0, x.dtype)
        self.states = [
            op.Expand(zero, shape) if state is None else _fitted(op, state, self.batch, shape)
            for state in initial
        ]

    def is_reverse(self, direction: int) -> bool:
        """Tell whether a direction goes over the steps from the last to the first."""
        return direction == 1 or self.node.attributes.get_string("direction", "") == "reverse"

    def share(self, op: Builder, value: ir.Value, direction: int, *shape: Dim) -> ir.Value:
        """Return what belongs to one direction, of this shape without the axis of directions."""
        if count_directions(self.node) == 1:
            return _shaped(op.Squeeze(value, [0]), *shape)
        return _shaped(op.Gather(value, direction, axis=0), *shape)

    def cell(self, op: Builder, direction: int, activations: Sequence[Activation]) -> _Cell:
        """Return the cell of one direction, which takes its own of the activation functions."""
        rows, hidden = _GATES[self.node.op_type] * self.hidden, self.hidden
        shapes: Sequence[Sequence[Dim]]
        shapes = ([rows, self.features], [rows, hidden], [2 * rows], [3 * hidden])
        w, r, b, p = (
            None if weight is None else self.share(op, weight, direction, *shape)
            for weight, shape in zip(self.weights, shapes, strict=True)
        )
        assert w is not None and r is not None
        x_bias = h_bias = None
        if b is not None:
            x_bias, h_bias = op.emit("Split", [b], {"axis": 0, "num_outputs": 2}, outputs=2)
        if self.node.op_type != "GRU":
            x_bias, h_bias = op.add(x_bias, h_bias), None
        count = len(activations) // count_directions(self.node)
        own = activations[direction * count : (direction + 1) * count]
        return _Cell(self.node, w, r, x_bias, h_bias, p, own)

    def running(self, op: Builder) -> ir.Value:
        """Tell for each step which sequences are not over yet, [T, B, 1]."""
        steps = op.arange(op.dim(self.x, 0))
        runs = op.Less(op.Unsqueeze(steps, [1, 2]), op.Unsqueeze(self.lengths, [1]))
        return _shaped(runs, self.steps, self.batch, 1)


def step_by_step(op: Builder, node: ir.Node, activations: Sequence[Activation]) -> Values:
    """Emit the steps of an RNN, a GRU or an LSTM; return what equals Y, Y_h and Y_c.

    Args:
        op: emits the operators.
        node: whose inputs are read.
        activations: its activation functions, one direction after the other.
    """
    given = _Recurrence(op, node)
    parts = [_direction(op, given, i, activations) for i in range(count_directions(node))]
    *states, y = (
        _joined(op, [op.Unsqueeze(value, [axis]) for value in column], axis)
        for column, axis in zip(
            zip(*parts, strict=True), [0] * len(given.states) + [1], strict=True
        )
    )
    if node.attributes.get_int("layout", 0):
        y = op.Transpose(y, perm=[2, 0, 1, 3])
        states = [op.Transpose(state, perm=[1, 0, 2]) for state in states]
    assert node.inputs[0] is not None
    return [op.cast(value, node.inputs[0]) for value in (y, *states)]


def _direction(
    op: Builder, given: _Recurrence, direction: int, activations: Sequence[Activation]
) -> Values:
    """Run one direction, if there are steps; return its last states, then its rows of Y."""
    cell = given.cell(op, direction, activations)
    shape = (given.batch, given.hidden)
    states = [given.share(op, state, direction, *shape) for state in given.states]

    def run(op: Builder) -> Values:
        *last, y = _scan(op, given, cell, states, given.is_reverse(direction))
        if given.lengths is not None:
            some = op.Greater(op.Unsqueeze(given.lengths, [1]), 0)
            last = [_shaped(op.Where(some, state, 0.0), *shape) for state in last]
        return [*last, _shaped(y, given.steps, *shape)]

    def rest(op: Builder) -> Values:
        sizes = op.Concat(op.dim(given.x, 0), op.Shape(states[0]), axis=0)
        y = op.Expand(op.constant(0, given.x.dtype), sizes)
        return [*(op.zeros_like(state) for state in states), _shaped(y, given.steps, *shape)]

    if isinstance(given.steps, int) and given.steps > 0:
        return run(op)
    # ONNX Runtime refuses a Scan over no rows.
    return op.either(op.Greater(op.dim(given.x, 0), 0), run, rest)


def _scan(op: Builder, given: _Recurrence, cell: _Cell, states: Values, reverse: bool) -> Values:
    """Emit the steps of one direction; return the states after them, and the rows of Y.

    What lies past the end of a sequence is not read, whatever it is.
    """
    x, masks = given.x, []
    if given.lengths is not None:
        masks = [given.running(op)]
        x = op.Where(masks[0], x, 0.0)
    stacks = [_shaped(cell.rows(op, x), given.steps, given.batch, cell.width), *masks]
    inner = op.inside("step")
    old = [_input(inner, "state", state, given.batch, given.hidden) for state in states]
    row, *running = (
        _input(inner, "row", stack, given.batch, size)
        for stack, size in zip(stacks, (cell.width, 1), strict=False)
    )
    new = list(_STEPS[given.node.op_type](cell, inner, row, *old))
    y = new[0]
    for runs in running:
        y = inner.Where(runs, y, 0.0)
        new = [inner.Where(runs, a, b) for a, b in zip(new, old, strict=True)]
    inner.graph.outputs.extend(inner.own([*new, y]))
    attributes = {
        "body": inner.graph,
        "num_scan_inputs": len(stacks),
        "scan_input_directions": [int(reverse)] * len(stacks),
        "scan_output_directions": [int(reverse)],
    }
    return op.emit("Scan", [*states, *stacks], attributes, outputs=len(states) + 1)


def _joined(op: Builder, parts: Values, axis: int) -> ir.Value:
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _fitted(op: Builder, state: ir.Value, batch: Dim, shape: ir.Value) -> ir.Value:
    """Let an initial state have the batch size of x, whatever symbol it was declared with."""
    if state.shape is not None and same_dim(state.shape[1], batch):
        return state
    return op.Reshape(state, shape, allowzero=1)


def _shaped(value: ir.Value, *dims: Dim) -> ir.Value:
    """Declare the shape of a new value."""
    value.shape = ir.Shape(dims)
    return value


def _input(body: Builder, name: str, like: ir.Value, *dims: Dim) -> ir.Value:
    value = _shaped(ir.Value(name=body.names.fresh(name), type=like.type), *dims)
    body.graph.inputs.append(value)
    return value

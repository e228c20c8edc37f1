"""Expansions of RNN, GRU and LSTM: one `Scan` over time for each direction.

The equations are those of the ONNX specification. Where a sequence is over, its state stays as it
is and its row of Y is zero; in reverse it starts at its own last element for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as ir

from whileback.checking.expand_elementwise import (
    elu,
    hard_sigmoid,
    leaky_relu,
    softplus,
    softsign,
    thresholded_relu,
)
from whileback.checking.expansion import Expansion
from whileback.graph.builder import Builder

__all__ = ["RNN"]

Activation = Callable[[Builder, ir.Value], ir.Value]
Values = Sequence[ir.Value]


def _affine(op: Builder, x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return op.Add(op.Mul(x, alpha), beta)


def _scaled_tanh(op: Builder, x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return op.Mul(op.Tanh(op.Mul(x, beta)), alpha)


# Each with the defaults of the parameters that it takes.
_ACTIVATIONS: dict[str, tuple[Callable[..., ir.Value], dict[str, float]]] = {
    "affine": (_affine, {"alpha": 1.0, "beta": 0.0}),
    "elu": (elu, {"alpha": 1.0}),
    "hardsigmoid": (hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (leaky_relu, {"alpha": 0.01}),
    "relu": (lambda op, x: op.Relu(x), {}),
    "scaledtanh": (_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": (lambda op, x: op.Sigmoid(x), {}),
    "softplus": (softplus, {}),
    "softsign": (softsign, {}),
    "tanh": (lambda op, x: op.Tanh(x), {}),
    "thresholdedrelu": (thresholded_relu, {"alpha": 1.0}),
}


def _activations(node: ir.Node, default: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return the activations of each direction; each takes its parameters from the lists."""
    names = node.attributes.get_strings("activations", list(default) * directions)
    lists = {
        kind: iter(node.attributes.get_floats(f"activation_{kind}", []))
        for kind in ("alpha", "beta")
    }
    found: list[Activation] = []
    for name in names:
        function, defaults = _ACTIVATIONS[name.lower()]
        given = {kind: next(lists[kind], value) for kind, value in defaults.items()}
        found.append(partial(function, **given))
    count = len(default)
    return [found[i * count : (i + 1) * count] for i in range(directions)]


@dataclass(frozen=True)
class _Cell:
    """What one direction computes in a step; weights are transposed, biases a row for each gate."""

    node: ir.Node
    w: ir.Value
    r: ir.Value
    w_bias: ir.Value | None
    r_bias: ir.Value | None
    peepholes: ir.Value | None
    activations: list[Activation]

    def gates(self, op: Builder, x: ir.Value, w: ir.Value, bias: ir.Value | None) -> Values:
        """Return x·w + bias, a value for each gate."""
        total = op.MatMul(x, w)
        total = total if bias is None else op.Add(total, bias)
        count = {"RNN": 1, "GRU": 3, "LSTM": 4}[self.node.op_type]
        if count == 1:
            return [total]
        return op.emit("Split", [total], {"axis": -1, "num_outputs": count}, outputs=count)

    def clipped(self, op: Builder, x: ir.Value) -> ir.Value:
        """Return what an activation is applied to."""
        limit = self.node.attributes.get_float("clip", 0.0)
        return op.Max(op.Min(x, limit), -limit) if limit else x

    def peephole(self, op: Builder, gate: int, c: ir.Value) -> ir.Value | None:
        """Return what a gate of an LSTM sees of the cell: gates i, o, f."""
        if self.peepholes is None:
            return None
        size = self.node.attributes["hidden_size"].as_int()
        return op.Mul(op.Slice(self.peepholes, [gate * size], [(gate + 1) * size]), c)


def _rnn_step(cell: _Cell, op: Builder, x: ir.Value, h: ir.Value) -> Values:
    (f,) = cell.activations
    (a,) = cell.gates(op, x, cell.w, cell.w_bias)
    (b,) = cell.gates(op, h, cell.r, cell.r_bias)
    return [f(op, cell.clipped(op, op.Add(a, b)))]


def _gru_step(cell: _Cell, op: Builder, x: ir.Value, h: ir.Value) -> Values:
    f, g = cell.activations
    xz, xr, xh = cell.gates(op, x, cell.w, cell.w_bias)
    hz, hr, hh = cell.gates(op, h, cell.r, cell.r_bias)
    z = f(op, cell.clipped(op, op.Add(xz, hz)))
    r = f(op, cell.clipped(op, op.Add(xr, hr)))
    if cell.node.attributes.get_int("linear_before_reset", 0):
        hidden = op.Mul(r, hh)
    else:
        hidden = cell.gates(op, op.Mul(r, h), cell.r, cell.r_bias)[2]
    new = g(op, cell.clipped(op, op.Add(xh, hidden)))
    return [op.Add(op.Mul(op.Sub(1.0, z), new), op.Mul(z, h))]


def _lstm_step(cell: _Cell, op: Builder, x: ir.Value, h: ir.Value, c: ir.Value) -> Values:
    f, g, out = cell.activations
    from_x = cell.gates(op, x, cell.w, cell.w_bias)
    from_h = cell.gates(op, h, cell.r, cell.r_bias)
    sums = [op.Add(a, b) for a, b in zip(from_x, from_h, strict=True)]

    def gate(index: int, seen: ir.Value) -> ir.Value:
        total = op.add(sums[index], cell.peephole(op, index, seen))
        assert total is not None
        return f(op, cell.clipped(op, total))

    i = gate(0, c)
    coupled = cell.node.attributes.get_int("input_forget", 0)
    forget = op.Sub(1.0, i) if coupled else gate(2, c)
    new = op.Add(op.Mul(forget, c), op.Mul(i, g(op, cell.clipped(op, sums[3]))))
    return [op.Mul(gate(1, new), out(op, new)), new]


@dataclass(frozen=True)
class _Recurrence:
    """All inputs of a node, time first; `states` are the initial ones, [D, B, H]."""

    node: ir.Node
    x: ir.Value
    weights: Sequence[ir.Value | None]  # W, R, B, P
    lengths: ir.Value | None
    states: Values

    def cell(self, op: Builder, direction: int, activations: list[Activation]) -> _Cell:
        """Return the cell of one direction."""
        w, r, b, p = (
            None if weight is None else _of_rank(op.Gather(weight, direction, axis=0), rank)
            for weight, rank in zip(self.weights, (2, 2, 1, 1), strict=True)
        )
        assert w is not None and r is not None
        w_bias = r_bias = None
        if b is not None:
            w_bias, r_bias = op.emit("Split", [b], {"axis": 0, "num_outputs": 2}, outputs=2)
        w, r = op.Transpose(w, perm=[1, 0]), op.Transpose(r, perm=[1, 0])
        return _Cell(self.node, w, r, w_bias, r_bias, p, activations)


def _scan(
    op: Builder, given: _Recurrence, step: Callable[..., Values], cell: _Cell, direction: int
) -> Values:
    """Run one direction; return its last states, then its rows of Y, [T, B, H]."""
    kind = given.node.attributes.get_string("direction", "forward")
    backward = int(kind == "reverse" or direction == 1)
    states = [_of_rank(op.Gather(state, direction, axis=0), 2) for state in given.states]
    stacks = [given.x] if given.lengths is None else [given.x, _running(op, given)]
    inner = op.inside("step")
    old = [_input(inner, "state", state) for state in states]
    rows = [_input(inner, "row", stack) for stack in stacks]
    new = list(step(cell, inner, rows[0], *old))
    y = new[0]
    if given.lengths is not None:
        y = inner.Where(rows[1], y, inner.constant(0.0))
        new = [inner.Where(rows[1], a, b) for a, b in zip(new, old, strict=True)]
    inner.graph.outputs.extend([inner.Identity(value) for value in (*new, y)])
    attributes = {
        "body": inner.graph,
        "num_scan_inputs": len(stacks),
        "scan_input_directions": [backward] * len(stacks),
        "scan_output_directions": [backward],
    }
    return op.emit("Scan", [*states, *stacks], attributes, outputs=len(states) + 1)


def _of_rank(value: ir.Value, rank: int) -> ir.Value:
    """Declare the rank; ONNX Runtime wants to know that of the outputs of a body."""
    value.shape = value.shape or ir.Shape([None] * rank)
    return value


def _input(body: Builder, name: str, like: ir.Value) -> ir.Value:
    value = _of_rank(ir.Value(name=body.names.fresh(name), type=like.type), 2)
    body.graph.inputs.append(value)
    return value


def _running(op: Builder, given: _Recurrence) -> ir.Value:
    """Tell for each step which sequences are not over yet, [T, B, 1]."""
    steps = op.arange(op.dim(given.x, 0))
    lengths = op.Cast(given.lengths, to=int(ir.DataType.INT64))
    return op.Less(op.Unsqueeze(steps, [1, 2]), op.Unsqueeze(lengths, [1]))


def _recurrent(step: Callable[..., Values], default: Sequence[str]) -> Expansion:
    """Return the expansion of an operator with this step and these default activations."""

    def expansion(op: Builder, node: ir.Node, *inputs: ir.Value | None) -> Values:
        given = _recurrence(op, node, inputs)
        directions = 2 if node.attributes.get_string("direction", "") == "bidirectional" else 1
        activations = _activations(node, default, directions)
        parts = [
            _scan(op, given, step, given.cell(op, i, activations[i]), i) for i in range(directions)
        ]
        *states, y = (
            op.Concat(*(op.Unsqueeze(value, [axis]) for value in column), axis=axis)
            for column, axis in zip(
                zip(*parts, strict=True), [0] * len(given.states) + [1], strict=True
            )
        )
        if node.attributes.get_int("layout", 0):
            y = op.Transpose(y, perm=[2, 0, 1, 3])
            states = [op.Transpose(state, perm=[1, 0, 2]) for state in states]
        return [y, *states]

    return expansion


def _recurrence(op: Builder, node: ir.Node, inputs: Sequence[ir.Value | None]) -> _Recurrence:
    x, w, r, b, lengths, h, c, p = (*inputs, *[None] * 8)[:8]
    assert x is not None and w is not None
    if node.attributes.get_int("layout", 0):
        x = op.Transpose(x, perm=[1, 0, 2])
        h, c = (None if s is None else op.Transpose(s, perm=[1, 0, 2]) for s in (h, c))
    hidden = [node.attributes["hidden_size"].as_int()]
    shape = op.Concat(op.dim(w, 0), op.dim(x, 1), hidden, axis=0)
    initial = [h, c] if node.op_type == "LSTM" else [h]
    states = [op.Expand(op.constant(0.0), shape) if s is None else s for s in initial]
    return _Recurrence(node, x, (w, r, b, p), lengths, states)


RNN: dict[str, Expansion] = {
    "GRU": _recurrent(_gru_step, ["Sigmoid", "Tanh"]),
    "LSTM": _recurrent(_lstm_step, ["Sigmoid", "Tanh", "Tanh"]),
    "RNN": _recurrent(_rnn_step, ["Tanh"]),
}

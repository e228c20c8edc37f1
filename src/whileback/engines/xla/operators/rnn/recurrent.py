"""RNN, GRU and LSTM: a scan over time for each direction.

Where a sequence is over, its state stays as it is and its row of Y is zero; in reverse it starts
at its own last element for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.operators.batches import widened
from whileback.engines.xla.operators.rnn.activations import Activation, activations
from whileback.engines.xla.registry import lowering

__all__: list[str] = []

States = Sequence[Any]


@dataclass(frozen=True)
class _Cell:
    """What one direction computes in a step; weights are transposed, biases hold all gates."""

    op: Operator
    W: Any
    R: Any
    W_bias: Any
    R_bias: Any
    peepholes: Any
    activations: list[Activation]

    def gates(self, product: Any, bias: Any) -> list[Any]:
        """Return a product with W or R and its bias, a value for each gate."""
        count = {"RNN": 1, "GRU": 3, "LSTM": 4}[self.op.node.op_type]
        return jnp.split(product if bias is None else product + bias, count, -1)

    def recurrent(self, h: Any) -> list[Any]:
        """Return h·R + bias, a value for each gate."""
        return self.gates(jnp.matmul(h, self.R, precision="highest"), self.R_bias)

    def clipped(self, x: Any) -> Any:
        """Return what an activation is applied to."""
        limit = self.op.number("clip", 0.0)
        return jnp.clip(x, -limit, limit) if limit else x

    def flag(self, name: str) -> bool:
        """Tell whether an attribute is set."""
        return bool(self.op.integer(name, 0))


def _rnn_step(cell: _Cell, x: Sequence[Any], h: Any) -> States:
    """h = f(x·W + h·R + biases)."""
    (f,) = cell.activations
    return [f(cell.clipped(x[0] + cell.recurrent(h)[0]))]


def _gru_step(cell: _Cell, x: Sequence[Any], h: Any) -> States:
    """h = (1 - z)·g(…) + z·h, with gates z and r = f(…)."""
    f, g = cell.activations
    hz, hr, hh = cell.recurrent(h)
    z = f(cell.clipped(x[0] + hz))
    r = f(cell.clipped(x[1] + hr))
    hidden = r * hh if cell.flag("linear_before_reset") else cell.recurrent(r * h)[2]
    return [(1 - z) * g(cell.clipped(x[2] + hidden)) + z * h]


def _lstm_step(cell: _Cell, x: Sequence[Any], h: Any, c: Any) -> States:
    """c = f·c + i·g(…) and h = o·out(c), with gates i, o and f."""
    f, g, out = cell.activations
    sums = [a + b for a, b in zip(x, cell.recurrent(h), strict=True)]

    def gate(index: int, seen: Any) -> Any:
        total = sums[index]
        if cell.peepholes is not None:
            total = total + jnp.split(cell.peepholes, 3)[index] * seen
        return f(cell.clipped(total))

    i = gate(0, c)
    forget = 1 - i if cell.flag("input_forget") else gate(2, c)
    new = forget * c + i * g(cell.clipped(sums[3]))
    return [gate(1, new) * out(new), new]


def _scan(
    step: Callable[..., States], cell: _Cell, X: Any, running: Any, states: States, reverse: bool
) -> tuple[States, Any]:
    """Run one direction; return its last states, and its rows of Y, [T, B, H]."""

    def trip(old: States, row: tuple[Any, Any]) -> tuple[States, Any]:
        x, runs = row
        new = step(cell, cell.gates(x, cell.W_bias), *old)
        if runs is None:
            return new, new[0]
        kept = [jnp.where(runs, a, b) for a, b in zip(new, old, strict=True)]
        return kept, jnp.where(runs, new[0], 0)

    projected = jnp.matmul(X, cell.W, precision="highest")
    return jax.lax.scan(trip, list(states), (projected, running), reverse=reverse)


def _recurrent(
    op: Operator, step: Callable[..., States], default: Sequence[str], operands: Sequence[Any]
) -> tuple[Any, ...]:
    """Run all directions, time first, and return Y and the last states."""
    X, W, R, B, lengths, h, c, P = (*operands, *[None] * 8)[:8]
    dtype, batch_first = X.dtype, bool(op.integer("layout", 0))
    X = widened(X).swapaxes(0, 1) if batch_first else widened(X)
    directions, shape = W.shape[0], (W.shape[0], X.shape[1], R.shape[2])
    given = [h, c] if op.node.op_type == "LSTM" else [h]
    states = [_initial(state, shape, X.dtype, batch_first) for state in given]
    chosen = activations(op, default, directions)
    parts = []
    for k in range(directions):
        cell = _cell(op, (W, R, B, P), k, chosen[k])
        reverse = op.text("direction", "forward") == "reverse" or k == 1
        ours = [state[k] for state in states]
        parts.append(_scan(step, cell, X, _running(lengths, len(X)), ours, reverse))
    last, rows = zip(*parts, strict=True)
    Y = jnp.stack(rows, 1)
    ends = [jnp.stack(column) for column in zip(*last, strict=True)]
    if batch_first:
        Y, ends = Y.transpose(2, 0, 1, 3), [end.swapaxes(0, 1) for end in ends]
    return tuple(value.astype(dtype) for value in (Y, *ends))


def _running(lengths: Any, steps: int) -> Any:
    """Tell for each step which sequences are not over yet, [T, B, 1]."""
    if lengths is None:
        return None
    return jnp.arange(steps)[:, None, None] < jnp.reshape(lengths, (-1, 1))


def _initial(state: Any, shape: tuple[int, ...], dtype: Any, batch_first: bool) -> Any:
    if state is None:
        return jnp.zeros(shape, dtype)
    return widened(state).swapaxes(0, 1) if batch_first else widened(state)


def _cell(op: Operator, weights: Sequence[Any], k: int, chosen: list[Activation]) -> _Cell:
    """Return the cell of one direction."""
    parts: list[Any] = [None if weight is None else widened(weight)[k] for weight in weights]
    W, R, B, P = parts
    W_bias, R_bias = (None, None) if B is None else jnp.split(B, 2)
    return _Cell(op, W.T, R.T, W_bias, R_bias, P, chosen)


@lowering("RNN")
def _rnn(op: Operator, *operands: Any) -> tuple[Any, ...]:
    """Y = all states h, and the last."""
    return _recurrent(op, _rnn_step, ["Tanh"], operands)


@lowering("GRU")
def _gru(op: Operator, *operands: Any) -> tuple[Any, ...]:
    """Y = all states h, and the last."""
    return _recurrent(op, _gru_step, ["Sigmoid", "Tanh"], operands)


@lowering("LSTM")
def _lstm(op: Operator, *operands: Any) -> tuple[Any, ...]:
    """Y = all states h, the last, and the last cell."""
    return _recurrent(op, _lstm_step, ["Sigmoid", "Tanh", "Tanh"], operands)

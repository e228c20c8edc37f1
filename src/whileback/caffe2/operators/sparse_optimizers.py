"""Optimizers of single rows: they update the rows of a table that `indices` name.

A row that is named several times takes several steps, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.caffe2.operators.loops import repeat
from whileback.caffe2.operators.optimizers import (
    adadelta_step,
    adagrad_step,
    adam_rate,
    adam_step,
    decayed,
    ftrl_alpha,
    ftrl_step,
    momentum_step,
    scalar,
    shrink,
    storm_rate,
    storm_step,
)
from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label

Step = Callable[[Emitter, list[ir.Value], ir.Value], Sequence[ir.Value]]


def by_rows(
    op: Emitter,
    node: Operator,
    indices: ir.Value,
    tables: Sequence[ir.Value],
    g: ir.Value,
    step: Step,
    results: int = 0,
) -> list[ir.Value]:
    """Update rows of some tables; return the tables, then the further results of the steps.

    Args:
        op, node: the emitter and the operator.
        indices: the row of each gradient.
        tables: what is updated; each is seen as a matrix.
        g: the gradients, as many as there are indices.
        step: called as `step(op, rows, g)` with matrices in which no row occurs twice, returns
            the new rows of each table, then further results of g's shape.
        results: how many further results there are.
    """
    count, G = len(tables), op.Flatten(g, axis=known_rank(node, indices))
    places = op.cast(op.Reshape(indices, [-1]), ir.DataType.INT64)
    named, _, which, counts = op.emit("Unique", [places], outputs=4)
    turns = _turns(op, which, counts)
    matrices = [op.Flatten(table, axis=1) for table in tables]
    starts = [op.Gather(matrix, named) for matrix in matrices]
    starts.extend(op.zeros_like(G) for _ in range(results))

    def trip(op: Emitter, turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        chosen = op.Squeeze(op.NonZero(op.Equal(turns, turn)), [0])
        rows = op.Gather(which, chosen)
        new = step(op, [op.Gather(table, rows) for table in carried[:count]], op.Gather(G, chosen))
        targets = [rows] * count + [chosen] * results
        return [_put(op, *each) for each in zip(carried, targets, new, strict=False)]

    found = repeat(op, op.ReduceMax(op.Concat(counts, [0], axis=0), [0], keepdims=0), starts, trip)
    updated = [
        op.reshape(_put(op, matrix, named, rows), table)
        for matrix, rows, table in zip(matrices, found, tables, strict=False)
    ]
    return [*updated, *(op.reshape(result, g) for result in found[count:])]


def _put(op: Emitter, table: ir.Value, places: ir.Value, rows: ir.Value) -> ir.Value:
    """Return the table with rows at some places."""
    return op.ScatterND(table, op.Unsqueeze(places, [1]), rows)


def _turns(op: Emitter, which: ir.Value, counts: ir.Value) -> ir.Value:
    """Return for each index how often it occurs before: 0, 0, 1 for 1, 0, 1.

    Args:
        op: emits.
        which: the indices.
        counts: how often each one occurs.
    """
    ordered, origin = op.emit(
        "TopK", [which, op.Shape(which)], {"axis": 0, "largest": 0, "sorted": 1}, outputs=2
    )
    first = op.Gather(op.CumSum(counts, op.constant(0), exclusive=1), ordered)
    return op.ScatterElements(which, origin, op.Sub(op.arange(op.Shape(which)), first), axis=0)


@lowering("SparseMomentumSGDUpdate")
def sparse_momentum_sgd_update(op: Emitter, node: Operator) -> list[ir.Value]:
    """MomentumSGDUpdate of rows; returns the steps, m, w."""
    g, m, lr, w, indices = node.tensors(5)
    rate = scalar(op, lr)

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        taken, m = momentum_step(op, node, g, rows[0], rate)
        return [m, op.Sub(rows[1], taken), taken]

    m, w, taken = by_rows(op, node, indices, [m, w], g, step, results=1)
    return [taken, m, w]


@lowering("SparseAdagrad")
def sparse_adagrad(op: Emitter, node: Operator) -> list[ir.Value]:
    """Adagrad of rows."""
    w, h, indices, g, lr = node.tensors(5)
    rate = scalar(op, lr)

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        return adagrad_step(op, node, rows[0], rows[1], g, rate)[:2]

    return by_rows(op, node, indices, [w, h], g, step)


def _mean_square(op: Emitter, g: ir.Value) -> ir.Value:
    """Return the mean of g² of each row."""
    return op.ReduceMean(op.Mul(g, g), [1], keepdims=1)


@lowering("RowWiseSparseAdagrad")
def row_wise_sparse_adagrad(op: Emitter, node: Operator) -> list[ir.Value]:
    """h ← h + mean of the row's g², w ← w + lr / (√h + epsilon)·g; one h for each row."""
    w, h, indices, g, lr = node.tensors(5)
    rate = scalar(op, lr)

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        g = decayed(op, node, rows[0], g)
        h = op.Add(rows[1], _mean_square(op, g))
        root = op.Add(op.Sqrt(h), node.args.float("epsilon", 1e-5))
        return [op.Add(rows[0], op.Mul(op.Div(rate, root), g)), h]

    return by_rows(op, node, indices, [w, h], g, step)


@lowering("SparseAdam", "RowWiseSparseAdam")
def sparse_adam(op: Emitter, node: Operator) -> list[ir.Value]:
    """Adam of rows, with one v for each row (of the mean of g²) in RowWiseSparseAdam."""
    w, m, v, indices, g, lr, iteration = node.tensors(7)
    rate, lr = adam_rate(op, node, iteration), scalar(op, lr)
    whole_rows = node.type == "RowWiseSparseAdam"
    rectify = _rectifier(op, node, iteration)

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        w, m, v = rows
        square = _mean_square(op, g) if whole_rows else op.Mul(g, g)
        m, v, direction = adam_step(op, node, (m, v), g, square, rate)
        if rectify is not None:
            direction = rectify(op, m, direction)
        return [op.Add(w, op.Mul(direction, lr)), m, v, direction]

    return by_rows(op, node, indices, [w, m, v], g, step, results=1)


def _rectifier(
    op: Emitter, node: Operator, iteration: ir.Value
) -> Callable[[Emitter, ir.Value, ir.Value], ir.Value] | None:
    """Return what makes Adam's direction RAdam's, or None where that is not asked for.

    With R = 2 / (1 - beta2) - 1 and ρ = R - 2t·beta2ᵗ / (1 - beta2ᵗ), the direction is scaled by
    √((ρ - 4)(ρ - 2)R / ((R - 4)(R - 2)ρ)) where ρ ≥ 5, and else is m / (1 - beta1ᵗ).
    """
    if node.type != "SparseAdam" or not node.args.bool("enableRAdam", False):
        return None
    beta1, beta2 = node.args.float("beta1", 0.9), node.args.float("beta2", 0.999)
    t = op.cast(op.Add(scalar(op, iteration), 1), ir.DataType.FLOAT)
    power = op.Pow(beta2, t)
    limit = 2 / (1 - beta2) - 1
    rho = op.Sub(limit, op.Div(op.Mul(op.Mul(t, power), 2.0), op.Sub(1.0, power)))
    part = op.Div(op.Mul(op.Sub(rho, 4.0), op.Sub(rho, 2.0)), rho)
    factor = op.Sqrt(op.Mul(part, limit / ((limit - 4) * (limit - 2))))
    certain = op.GreaterOrEqual(rho, 5.0)
    first = op.Sub(1.0, op.Pow(beta1, t))
    return lambda op, m, direction: op.Where(certain, op.Mul(direction, factor), op.Div(m, first))


@lowering("SparseAdadelta")
def sparse_adadelta(op: Emitter, node: Operator) -> list[ir.Value]:
    """Adadelta of rows."""
    w, m, d, indices, g, lr = node.tensors(6)
    rate = scalar(op, lr)
    return by_rows(
        op, node, indices, [w, m, d], g, lambda op, rows, g: adadelta_step(op, node, rows, g, rate)
    )


@lowering("SparseFtrl")
def sparse_ftrl(op: Emitter, node: Operator) -> list[ir.Value]:
    """Ftrl of rows."""
    w, nz, indices, g = node.tensors(4)
    alpha = ftrl_alpha(op, node, node.optional(4))

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        pairs = op.Reshape(rows[1], op.Concat(op.Shape(g), [2], axis=0))
        w, nz = ftrl_step(op, node, rows[0], pairs, g, alpha)
        return [w, op.Flatten(nz, axis=1)]

    return by_rows(op, node, indices, [w, nz], g, step)


@lowering("SparseWngrad")
def sparse_wngrad(op: Emitter, node: Operator) -> list[ir.Value]:
    """w ← w + lr / (b + epsilon)·g of rows, b ← b + |g|² / b for the g of all rows."""
    w, b, indices, g, lr = node.tensors(5)
    rate = op.Div(scalar(op, lr), op.Add(scalar(op, b), node.args.float("epsilon", 1e-5)))

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        return [op.Add(rows[0], op.Mul(g, rate))]

    (w,) = by_rows(op, node, indices, [w], g, step)
    return [w, op.Add(b, op.Div(op.ReduceSumSquare(g, keepdims=0), b))]


@lowering("SparseStorm")
def sparse_storm(op: Emitter, node: Operator) -> list[ir.Value]:
    """Storm of rows, with one rate for all of them."""
    w, m, sum_square, g, indices, lr = node.tensors(6)
    rate, new = storm_rate(op, node, sum_square, g, lr)

    def step(op: Emitter, rows: list[ir.Value], g: ir.Value) -> list[ir.Value]:
        return storm_step(op, node, rows[0], rows[1], g, rate)

    return [*by_rows(op, node, indices, [w, m], g, step), new]


@lowering("SparseNormalize")
def sparse_normalize(op: Emitter, node: Operator) -> ir.Value:
    """Scale rows to the length `norm`, with use_max_norm only those that are longer."""
    w, indices = node.tensors(2)
    norm = node.args.float("norm", 1.0)

    def step(op: Emitter, rows: list[ir.Value], _: ir.Value) -> list[ir.Value]:
        length = op.ReduceL2(rows[0], [1], keepdims=1)
        scaled = op.Mul(rows[0], op.Div(norm, op.Add(length, 1e-12)))
        if node.args.bool("use_max_norm", True):
            scaled = op.Where(op.Greater(length, norm), scaled, rows[0])
        return [scaled]

    return by_rows(op, node, indices, [w], op.Gather(w, indices), step)[0]


@lowering("SparseLpRegularizer")
def sparse_lp_regularizer(op: Emitter, node: Operator) -> ir.Value:
    """Rows move towards 0: by reg_lambda where p is 1, to (1 - reg_lambda)·row where it is 2."""
    w, indices = node.tensors(2)
    p, weight = node.args.float("p", 2.0), node.args.float("reg_lambda", 1e-5)
    if p not in (1.0, 2.0):
        raise NetDefError(f"{label(node.proto)} has p {p:g}; it must be 1 or 2.")

    def step(op: Emitter, rows: list[ir.Value], _: ir.Value) -> list[ir.Value]:
        return [op.Mul(rows[0], 1 - weight) if p == 2.0 else shrink(op, rows[0], weight)]

    return by_rows(op, node, indices, [w], op.Gather(w, indices), step)[0]


@lowering("RowWiseCounter")
def row_wise_counter(op: Emitter, node: Operator) -> list[ir.Value]:
    """c ← 1 + c·½^((iteration - last) / counter_halflife), last ← iteration, for each row."""
    last, counter, indices, iteration = node.tensors(4)
    half = node.args.float("counter_halflife", -1.0)
    if half <= 0:
        return [last, counter]
    now = scalar(op, iteration)

    def step(op: Emitter, rows: list[ir.Value], _: ir.Value) -> list[ir.Value]:
        passed = op.cast(op.Sub(now, rows[0]), ir.DataType.DOUBLE)
        kept = op.Mul(rows[1], op.Pow(0.5, op.Div(passed, half)))
        return [op.expand(now, rows[0]), op.Add(kept, 1.0)]

    return by_rows(op, node, indices, [last, counter], indices, step)

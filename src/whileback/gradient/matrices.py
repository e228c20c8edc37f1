"""`jacobian` and `hessian`: all derivatives at once, by a loop over the elements.

Reverse, trip i makes a row of the matrix: the vjp for a cotangent that is 1 at element i of `of`.
Forward, it makes a column: the jvp for such a tangent of `wrt`. What is the same in every trip is
computed before the loop.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Literal

import onnx_ir as ir

from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.derivation import derivation
from whileback.gradient.forward import forward
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.rewrite import LoopOptions
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.memory.truncation import Truncate
from whileback.gradient.selection import listed
from whileback.gradient.transform import (
    Quantized,
    Transform,
    of_gradient,
    warn_of_zeros,
)
from whileback.graph.cleanup import prune
from whileback.graph.randomness import draws
from whileback.graph.scopes import operands, subgraphs
from whileback.graph.shapes import size

__all__ = ["hessian", "jacobian"]

# Emits derivatives, given a cotangent or a tangent.
Derive = Callable[[GradientBuilder, ir.Value], Sequence[ir.Value]]


@derivation
def jacobian(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with the derivatives of all elements of `of` for all elements of `wrt`.

    Its outputs are the model's own, `of` where it is not among them, then `<y>_<x>_jacobian` for
    each y of `of` and each x of `wrt`, of the shape of y followed by that of x. For arguments and
    errors see `whileback.jacobian`.
    """
    loops = LoopOptions(memory, truncate, implicit)
    work = Transform(model, listed(of), listed(wrt), quantized, loops, opset, ir_version)
    for value in work.sources:
        if value not in work.op.active:
            warn_of_zeros(value)
    pairs = {f"{y}/{x}": f"{y}_{x}_jacobian" for y in listed(of) for x in listed(wrt)}
    return _run(work, pairs)


@derivation
def hessian(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with its gradients and all their derivatives.

    These are `<x>_<w>_hessian` for each x and each w of `wrt`, after the gradients `<x>_grad`. For
    arguments and errors see `whileback.hessian`.
    """
    work = of_gradient(
        model,
        of,
        wrt,
        reduce=reduce,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
        loops=LoopOptions(),
        opset=opset,
        ir_version=ir_version,
    )
    wrt = listed(wrt)
    return _run(work, {f"{x}/{w}": f"{x}_{w}_hessian" for x in wrt for w in wrt})


def _run(work: Transform, outputs: dict[str, str]) -> ir.Model:
    """Emit the loops; `outputs` are names, by their keys, for each of `of` and each of `wrt`."""
    nodes = list(work.model.graph)
    targets, sources = work.targets, work.sources
    if _goes_forward(work):
        columns = [_columns(work.op, nodes, x, targets) for x in sources]
        blocks = [block for row in zip(*columns, strict=True) for block in row]
    else:
        blocks = [block for y in targets for block in _rows(work.op, nodes, y, sources)]
    work.add_targets()
    work.add_residuals()
    for (key, name), block in zip(outputs.items(), blocks, strict=True):
        (result,) = work.op.own([block])
        work.add_output(key, work.op.names.fresh(name), result)
    return work.finish()


def _goes_forward(work: Transform) -> bool:
    """Tell whether columns are known to be no more than rows, and nothing draws in loops.

    Forward, loops run again for each column, and would draw other numbers.
    """
    columns, rows = (_total(values) for values in (work.sources, work.targets))
    drawn = any(subgraphs(node) and draws(node) for node in work.model.graph)
    return columns is not None and rows is not None and columns <= rows and not drawn


def _total(values: Sequence[ir.Value]) -> int | None:
    """Return how many elements the values have, if that is known."""
    total = 0
    for value in values:
        count = size(value)
        if count is None:
            return None
        total += count
    return total


def _rows(
    op: GradientBuilder, nodes: Sequence[ir.Node], y: ir.Value, sources: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return the blocks of one y: the vjp for each of its elements."""

    def pull(inside: GradientBuilder, seed: ir.Value) -> list[ir.Value]:
        cotangents: Cotangents = {y: seed}
        backward(inside, nodes, cotangents)
        return [cotangents[x] if x in cotangents else inside.zeros_like(x) for x in sources]

    stacks = _for_each_element(op, y, pull)
    return [_block(op, stack, y, x) for stack, x in zip(stacks, sources, strict=True)]


def _columns(
    op: GradientBuilder, nodes: Sequence[ir.Node], x: ir.Value, targets: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return the blocks of one x: the jvp for each of its elements, which come as columns."""
    op.masked = set()

    def push(inside: GradientBuilder, seed: ir.Value) -> list[ir.Value]:
        tangents = ChainMap({x: seed})
        forward(inside, nodes, tangents)
        return [tangents[y] if y in tangents else inside.zeros_like(y) for y in targets]

    stacks = _for_each_element(op, x, push)
    return [_block(op, _turned(op, s, x, y), y, x) for s, y in zip(stacks, targets, strict=True)]


def _turned(op: GradientBuilder, stack: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return columns of all elements of y, stacked for those of x, as rows of a matrix."""
    sizes = [op.Reshape(op.Size(value), [1]) for value in (x, y)]
    matrix = op.Reshape(stack, op.Concat(*sizes, axis=0), allowzero=1)
    return op.Transpose(matrix, perm=[1, 0])


def _for_each_element(op: GradientBuilder, value: ir.Value, derive: Derive) -> Sequence[ir.Value]:
    """Emit a loop over the elements of a value; return the stacks of what `derive` makes of 1s."""
    inside = op.inside(f"{value.name}/each")
    trip = op.new_scalar("element", ir.DataType.INT64)
    proceed = op.new_scalar("proceed", ir.DataType.BOOL)
    count = op.Size(value)
    hit = inside.cast(inside.Equal(op.Range(0, count, 1), trip), value)
    results = derive(inside, inside.reshape(hit, value))
    before, worst, after = _worst_residuals(op, inside)
    _take_out_fixed(op, inside.graph, {trip, *worst})
    inside.graph.inputs.extend([trip, proceed, *worst])
    inside.graph.outputs.extend([proceed, *inside.own([*after, *results])])
    prune(inside.graph)
    found = op.emit(
        "Loop", [count, True, *before], {"body": inside.graph}, outputs=len(worst) + len(results)
    )
    op.residuals.update(zip(inside.residuals, found, strict=False))
    return found[len(worst) :]


def _worst_residuals(
    op: GradientBuilder, inside: GradientBuilder
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
    """Return the largest residual of each implicit loop: before a loop, before and after a trip."""
    before, worst, after = list[ir.Value](), list[ir.Value](), list[ir.Value]()
    for loop, residual in inside.residuals.items():
        assert residual.dtype is not None
        before.append(op.residuals.get(loop) or op.constant(0, residual.dtype))
        worst.append(op.new_scalar("residual", residual.dtype))
        after.append(inside.Max(worst[-1], residual))
    return before, worst, after


def _take_out_fixed(op: GradientBuilder, body: ir.Graph, changing: set[ir.Value]) -> None:
    """Move what is the same in every trip before the loop."""
    for node in list(body):
        if changing.isdisjoint(operands(node)):
            body.remove(node)
            op.graph.append(node)
        else:
            changing.update(node.outputs)


def _block(op: GradientBuilder, matrix: ir.Value, y: ir.Value, x: ir.Value) -> ir.Value:
    """Return a matrix in the shape of y followed by that of x, in the type of y."""
    shape = op.Concat(op.shape_of(y), op.shape_of(x), axis=0)
    block = op.cast(op.Reshape(matrix, shape, allowzero=1), y)
    if y.shape is not None and x.shape is not None:
        block.shape = ir.Shape([*y.shape, *x.shape])
    return block

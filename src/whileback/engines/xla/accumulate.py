"""Small products of stacks become sums over trips again.

A gradient makes the product `Xᵀ·dY` of all rows after the loop. Where rows are short, XLA is
faster with `x_tᵀ·dy_t` added up in the loop: a few numbers in registers, and one stack less to
write. For longer rows the product is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import onnx_ir as ir

from whileback.graph.scopes import ScanOutput, is_standard, loop_view, walk

__all__ = ["Sum", "Sums", "find_sums"]

# The most elements of a sum: measured, see benchmarks/xla.py.
_MOST = 1024


@dataclass(frozen=True)
class Sum:
    """The sum over trips of `x_tᵀ·y_t`, rows of the stack that is `read` and of one `written`."""

    result: ir.Value
    read: ir.Value
    written: ScanOutput
    is_turned: bool

    def term(self, read: jax.Array, written: jax.Array) -> jax.Array:
        """Return what a trip adds."""
        left, right = (written, read) if self.is_turned else (read, written)
        return jnp.multiply(left.reshape(-1, 1), right.reshape(1, -1))

    def total(self, read: jax.Array, written: jax.Array) -> jax.Array:
        """Return the whole sum, of all rows."""
        left, right = (written, read) if self.is_turned else (read, written)
        return _matrix(left).T @ _matrix(right)


def _matrix(stack: jax.Array) -> jax.Array:
    return stack.reshape(len(stack), math.prod(stack.shape[1:]))


@dataclass(frozen=True)
class Sums:
    """The sums of each loop, and the nodes that need not run, since loops do what they do.

    `read` are the stacks that the loops read for it.
    """

    of: dict[ir.Node, list[Sum]] = field(default_factory=dict)
    instead: set[ir.Node] = field(default_factory=set)
    read: set[ir.Value] = field(default_factory=set)

    def need(self, stack: ir.Value) -> bool:
        """Tell whether anything that runs reads the stack."""
        readers = [use.node for use in stack.uses()]
        runs = any(node not in self.instead for node in readers)
        return runs or stack in self.read or stack.is_graph_output()


def find_sums(graph: ir.Graph) -> Sums:
    """Find the products in a graph, and in those inside it, that loops had better add up."""
    sums = Sums()
    for node in walk(graph):
        found = _find(node)
        if found is not None:
            loop = found.written.stack.producer()
            assert loop is not None
            sums.of.setdefault(loop, []).append(found)
            sums.instead.add(node)
            sums.read.add(found.read)
            for value in node.inputs:
                flat = None if value is None else value.producer()
                if flat is not None and value is not None and len(value.uses()) == 1:
                    sums.instead.add(flat)
    return sums


def _find(node: ir.Node) -> Sum | None:
    """Return the product if the node is one whose rows are few numbers each."""
    if not is_standard(node, "Gemm") or len(node.inputs) > 2 or not _is_plain(node):
        return None
    if node.outputs[0].dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return None
    left, right = (_stack(value) for value in node.inputs)
    if left is None or right is None or _width(left) * _width(right) > _MOST:
        return None
    for read, stack in ((left, right), (right, left)):
        written = _written(stack, node)
        if written is not None and _is_ready(read, stack):
            return Sum(node.outputs[0], read, written, read is right)
    return None


def _is_plain(node: ir.Node) -> bool:
    attributes = node.attributes
    return (
        attributes.get_int("transA", 0) == 1
        and attributes.get_int("transB", 0) == 0
        and attributes.get_float("alpha", 1.0) == 1.0
    )


def _stack(value: ir.Value | None) -> ir.Value | None:
    """Return the stack of which this is the matrix with a row per trip."""
    node = None if value is None else value.producer()
    if value is None or node is None or not is_standard(node, "Reshape"):
        return None
    stack = node.inputs[0]
    if stack is None or stack.shape is None or value.shape is None or len(value.shape) != 2:
        return None
    if not all(isinstance(size, int) for size in stack.shape[1:]):
        return None
    return stack if _width(stack) == value.shape[1] else None


def _width(stack: ir.Value) -> int:
    """Return how many numbers a row has."""
    assert stack.shape is not None
    return math.prod(size for size in stack.shape[1:] if isinstance(size, int))


def _written(stack: ir.Value, node: ir.Node) -> ScanOutput | None:
    """Return the stack as the output of a `Scan` beside the node, if it is one in order."""
    loop = stack.producer()
    if loop is None or not is_standard(loop, "Scan") or loop.graph is not node.graph:
        return None
    output = next(each for each in loop_view(loop).scan_outputs if each.stack is stack)
    return output if output.axis == 0 else None


def _is_ready(value: ir.Value, stack: ir.Value) -> bool:
    """Tell whether the value is there before the loop that writes the stack."""
    maker, loop = value.producer(), stack.producer()
    if maker is None or loop is None or maker.graph is not loop.graph:
        return maker is not loop
    return any(node is maker for node in _before(loop))


def _before(node: ir.Node) -> Iterator[ir.Node]:
    for other in node.graph or ():
        if other is node:
            return
        yield other

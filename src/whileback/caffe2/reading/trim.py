"""Takes out of loops and branches what nothing needs: values that they carry in vain.

A loop carries all that its nets write. What a trip does not change is read from outside instead;
what neither a later trip nor anything after the loop reads is no longer carried, nor computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import onnx_ir as ir

from whileback.graph.cleanup import discard, remove_outputs
from whileback.graph.scopes import branches, is_standard, operands, subgraphs

__all__ = ["trim"]

V = TypeVar("V")

# A loop's inputs before its carried values: the trips it may make, and whether it begins.
FIRST = 2


def trim(graph: ir.Graph) -> None:
    """Trim the loops and branches of a model that has just been read."""
    fixed: dict[ir.Value, ir.Value] = {}
    _read_from_outside(graph, fixed)
    _sweep(graph, _needed(graph))


def _read_from_outside(graph: ir.Graph, fixed: dict[ir.Value, ir.Value]) -> None:
    """Let all read from outside what a loop carries unchanged; inner loops go first.

    `fixed` has what is known of results of loops: that they are what the loop started with.
    """
    for node in graph:
        for inner in subgraphs(node):
            _read_from_outside(inner, fixed)
        if is_standard(node, "Loop"):
            body = node.attributes["body"].as_graph()
            for index, initial in enumerate(node.inputs[FIRST:]):
                begin, end = body.inputs[FIRST + index], body.outputs[1 + index]
                if initial is not None and _source(end, fixed) is begin:
                    fixed[node.outputs[index]] = initial
                    for value in (begin, node.outputs[index]):
                        for reader, at in value.uses():
                            reader.replace_input_with(at, initial)


def _source(value: ir.Value, fixed: dict[ir.Value, ir.Value]) -> ir.Value:
    """Return what a value is a copy of."""
    while True:
        producer = value.producer()
        if value in fixed:
            value = fixed[value]
        elif producer is not None and is_standard(producer, "Identity") and producer.inputs[0]:
            value = producer.inputs[0]
        else:
            return value


def _needed(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that the graph's outputs depend on, in all graphs."""
    needed: set[ir.Value] = set()
    waiting = list(graph.outputs)
    carried: dict[ir.Value, ir.Value] = {}
    while waiting:
        value = waiting.pop()
        if value in needed:
            continue
        needed.add(value)
        producer = value.producer()
        if producer is not None:
            waiting.extend(_needed_by(producer, value.index() or 0, carried))
        elif value in carried:
            waiting.append(carried[value])
    return needed


def _needed_by(node: ir.Node, index: int, carried: dict[ir.Value, ir.Value]) -> Iterator[ir.Value]:
    """Yield what an output of a node depends on; note in which ones a body's inputs come out."""
    needs: Iterable[ir.Value | None]
    if is_standard(node, "If"):
        needs = [node.inputs[0], *(branch.outputs[index] for branch in branches(node))]
    elif is_standard(node, "Loop"):
        body = node.attributes["body"].as_graph()
        initials = node.inputs[FIRST:]
        carried.update(zip(body.inputs[FIRST:], node.outputs, strict=False))
        needs = [
            *node.inputs[:FIRST],
            body.outputs[0],
            body.outputs[1 + index],
            *initials[index:][:1],
        ]
    else:
        needs = operands(node)
    yield from (value for value in needs if value is not None)


def _sweep(graph: ir.Graph, needed: set[ir.Value]) -> None:
    """Remove what is not needed."""
    for node in reversed(graph):
        unused = [k for k, value in enumerate(node.outputs) if value not in needed]
        if len(unused) == len(node.outputs):
            discard(graph, node)
        elif is_standard(node, "If", "Loop"):
            _drop(node, unused)
            for inner in subgraphs(node):
                _sweep(inner, needed)


def _drop(node: ir.Node, unused: list[int]) -> None:
    """Drop outputs of a loop or a branch, and what they are carried in."""
    if not unused:
        return
    is_if = is_standard(node, "If")
    for body in subgraphs(node):
        body.outputs[:] = _without(body.outputs, unused, 0 if is_if else 1)
        if not is_if:
            body.inputs[:] = _without(body.inputs, unused, FIRST)
    if not is_if:
        inputs = _without(node.inputs, unused, FIRST)
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
    remove_outputs(node, unused)


def _without(values: Sequence[V], unused: list[int], offset: int) -> list[V]:
    return [value for index, value in enumerate(values) if index - offset not in unused]

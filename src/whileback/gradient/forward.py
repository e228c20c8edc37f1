"""Forward mode over one graph: the tangents of its values, from the first node to the last.

There are no rules for it. A node's vjp is linear in the cotangents; its transpose, which is the
gradient of that linear function, maps tangents of what the node reads to those of what it computes.
What puts elements into places puts tangents there as well, so that a buffer is written as before.
Loops and branches compute tangents beside their values, trip by trip: nothing is kept for them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import onnx_ir as ir

from whileback.gradient.activity import dependents, reaching
from whileback.gradient.backward import Cotangents, apply_rule, backward, note_shape
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.rules.controlflow.implicit import mark_of
from whileback.gradient.rules.rnn.activations import activations
from whileback.gradient.solutions import ImplicitTangents
from whileback.graph.cleanup import CHECK, prune
from whileback.graph.copying import ValueMap, copy_node
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import taken_out
from whileback.graph.origin import ORIGIN, source
from whileback.graph.recurrent import DEFAULT_ACTIVATIONS, step_by_step
from whileback.graph.scopes import branches, is_loop, is_standard, loop_view, operands
from whileback.graph.shapes import same_shape

__all__ = ["Tangents", "forward", "in_turn"]

Tangents = ChainMap[ir.Value, ir.Value]
# What a node computes, and the tangents of that.
Results = tuple[Sequence[ir.Value], Sequence[ir.Value | None]]

# Operators that put elements of some of their inputs into places, and which inputs these are.
_PLACING = {
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "TensorScatter": (0, 1),
    "Where": (1, 2),
}


def in_turn(graph: ir.Graph, into: ir.Graph | None = None) -> Iterator[ir.Node]:
    """Yield the nodes of a graph, each put at the end of it, or of another one, before."""
    for node in taken_out(graph):
        (graph if into is None else into).append(node)
        yield node


def forward(op: GradientBuilder, nodes: Iterable[ir.Node], tangents: Tangents) -> None:
    """Add to `tangents` those of everything active that the nodes compute.

    Args:
        op: emits what computes them.
        nodes: forward nodes, in their order. Loops and branches become such that compute tangents
            as well; where they are in another graph than that of `op`, copies of them do.
        tangents: those of the values that the nodes read; grows.
    """
    for node in nodes:
        if not any(value in op.active for value in node.outputs):
            continue
        if any(value in tangents for value in operands(node)):
            for value, tangent in zip(*_advance(op, node, tangents), strict=True):
                if tangent is not None:
                    note_shape(op.graph, tangent, value)
                    earlier = tangents.get(value)
                    tangents[value] = tangent if earlier is None else op.plus(earlier, tangent)


def _advance(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Return what the node computes, or what stands for it now, and the tangents of that."""
    if is_standard(node, *DEFAULT_ACTIVATIONS):
        return _through_steps(op, node, tangents)
    if _places(node):
        return _placed(op, node, tangents)
    if not (is_loop(node) or is_standard(node, "If")):
        return _transposed(op, node, tangents)
    if is_loop(node) and mark_of(node) is not None:
        op.origin = node
        moved = ImplicitTangents(op, loop_view(node), tangents, forward).emit()
        return node.outputs, [moved.get(value) for value in node.outputs]
    through = _through_loop if is_loop(node) else _through_branches
    if node.graph is op.graph:
        op.origin = node
        return through(op, node, tangents)
    count = len(node.outputs)
    _, found = through(op, _copied(op, node, tangents), tangents)
    return node.outputs[:count], found


def _places(node: ir.Node) -> bool:
    """Tell whether a node puts elements into places, and adds nothing up there."""
    reduction = node.attributes.get_string("reduction", "none")
    return is_standard(node, *_PLACING) and reduction == "none"


def _placed(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Put tangents where the node puts elements."""
    op.origin = node
    read = list(node.inputs)
    for index in _PLACING[node.op_type]:
        value = read[index]
        assert value is not None
        read[index] = _known(op, value, tangents)
    return node.outputs, op.emit(node.op_type, read, dict(node.attributes))


def _through_steps(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Let a loop over the steps of an RNN, a GRU or an LSTM compute the tangents.

    The operator itself goes on computing the values.
    """
    apart = op.inside("steps")
    apart.origin = node
    results = step_by_step(apart, node, [each.value for each in activations(node)])
    emitted = list(apart.graph)
    _note_active(op, emitted, node.inputs, dict(zip(node.outputs, results, strict=False)), tangents)
    inner = tangents.new_child({})
    forward(op, in_turn(apart.graph, op.graph), inner)
    return node.outputs, [inner.get(value) for value in results[: len(node.outputs)]]


def _note_active(
    op: GradientBuilder,
    nodes: Sequence[ir.Node],
    read: Iterable[ir.Value | None],
    again: ValueMap,
    tangents: Tangents,
) -> None:
    """Note which values are active in nodes that compute again what others compute.

    These are what depends on what has tangents, of what is `read`, and reaches what stands for
    values that are active; `again` tells what stands for which.
    """
    found = dependents(nodes, [v for v in read if v is not None and v in tangents])
    wanted = [new for old, new in again.items() if old in op.active and new in found]
    op.active.update(reaching(nodes, wanted, found))


def _copied(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> ir.Node:
    """Return a copy of a node of another graph, of which is active what has tangents now."""
    replaced: ValueMap = {}
    again = copy_node(node, replaced, op.names)
    again.metadata_props[ORIGIN] = source(node)
    op.graph.append(again)
    op.origin = again
    _note_active(op, [again], operands(again), replaced, tangents)
    return again


def _transposed(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Return the gradient of the node's vjp, which is linear, with respect to the cotangents."""
    vjp = op.inside("vjp")
    seeds = {value: _like(op, value, "grad") for value in node.outputs if value in op.active}
    read = operands(node)
    gradients = apply_rule(vjp, node, [seeds.get(value) for value in node.outputs], len(read))
    emitted = list(vjp.graph)
    linear = copy(vjp)
    linear.active = dependents(emitted, seeds.values())
    cotangents: Cotangents = {}
    for value, gradient in zip(read, gradients, strict=True):
        if value is not None and gradient is not None and value in tangents:
            earlier, tangent = cotangents.get(gradient), tangents[value]
            cotangents[gradient] = tangent if earlier is None else vjp.plus(earlier, tangent)
    backward(linear, emitted, cotangents)
    found = {value: cotangents[seed] for value, seed in seeds.items() if seed in cotangents}
    _take_over(op, vjp.graph, seeds, list(found.values()))
    moved = tangents.get(read[0]) if read[0] is not None and is_standard(node, "Reshape") else None
    found = {v: _reshaped(op, t, v) if t is moved else t for v, t in found.items()}
    return node.outputs, [found.get(value) for value in node.outputs]


def _reshaped(op: GradientBuilder, tangent: ir.Value, value: ir.Value) -> ir.Value:
    """Give a tangent the shape of its value even where the graph says that it has that.

    Of a stack of no trips that is not so: it has sizes of 0, and the model may count on mending it.
    """
    result = op.Reshape(tangent, op.Shape(value), allowzero=1)
    node = result.producer()
    assert node is not None
    node.metadata_props[CHECK] = "1"
    return result


def _take_over(
    op: GradientBuilder, graph: ir.Graph, seeds: ValueMap, results: Sequence[ir.Value]
) -> None:
    """Take what computes the results out of a graph; of the seeds nothing but shapes is read."""
    tensors = [value for value in seeds if isinstance(value.type, ir.TensorType)]
    for node in graph:
        shaped = node.inputs[0] if is_standard(node, "Shape") else None
        if shaped is not None:
            like = next((value for value in tensors if same_shape(value, shaped)), shaped)
            node.replace_input_with(0, like)
    own = (value for value in results if value.graph is graph)
    graph.outputs.extend(dict.fromkeys(own))
    prune(graph)
    graph.outputs.clear()
    for value, seed in seeds.items():
        if seed.uses():
            seed.replace_all_uses_with(value if seed.type == value.type else op.zeros_like(value))
    op.graph.extend(taken_out(graph))


def _through_branches(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Let both branches of an `If` return the tangents of what they return."""
    count = len(node.outputs)
    wanted = [index for index, value in enumerate(node.outputs) if value in op.active]
    for branch in branches(node):
        inside = op.within(branch)
        inner = tangents.new_child({})
        forward(inside, in_turn(branch), inner)
        results = (_known(inside, branch.outputs[index], inner) for index in wanted)
        branch.outputs.extend(inside.own(results))
    node.resize_outputs(count + len(wanted))
    values = node.outputs[:count]
    found = dict(zip(wanted, node.outputs[count:], strict=True))
    return values, _declared(op, values, [found.get(index) for index in range(count)])


def _through_loop(op: GradientBuilder, node: ir.Node, tangents: Tangents) -> Results:
    """Let a loop carry, read and write tangents beside values."""
    return _Loop(op, node, tangents).run()


class _Loop:
    """A loop on its way to one that computes tangents as well."""

    def __init__(self, op: GradientBuilder, node: ir.Node, tangents: Tangents) -> None:
        self.op, self.node, self.outer = op, node, tangents
        self.view = loop_view(node)
        self.inside = op.within(self.view.body)
        self.inner = tangents.new_child({})
        carries = enumerate(self.view.carries)
        self.carried = [index for index, carry in carries if carry.input in op.active]
        self.more = More()

    def run(self) -> Results:
        """Put the new loop in the place of the old one; return its outputs and their tangents."""
        self._enter()
        forward(self.inside, in_turn(self.view.body), self.inner)
        # A loop inside may give values in the place of others.
        self.view = loop_view(self.node)
        written = self._leave()
        self.op.graph.remove(self.node)  # behind what has made zeros to start with
        self.op.graph.append(self.node)
        before = list(self.node.outputs)
        values, added = extend_loop(self.view, self.more)
        _stand_in(self.op, before, values, self.outer)
        places = [*self.carried, *(len(self.view.carries) + index for index in written)]
        found = dict(zip(places, added, strict=True))
        return values, _declared(self.op, values, [found.get(i) for i in range(len(values))])

    def _enter(self) -> None:
        """Give tangents to what is carried and read."""
        for scan in self.view.scan_inputs:
            if scan.stack in self.outer:
                row = self.inner[scan.row] = _like(self.op, scan.row, "tangent")
                self.more.read.append(replace(scan, stack=self.outer[scan.stack], row=row))
        for index in self.carried:
            value = self.view.carries[index].input
            self.inner[value] = _like(self.op, value, "tangent")

    def _leave(self) -> list[int]:
        """Let the body return tangents; return which of the written rows have one."""
        scans = self.view.scan_outputs
        written = [
            i for i, s in enumerate(scans) if s.stack in self.op.active and s.row in self.inner
        ]
        carries = [self.view.carries[index] for index in self.carried]
        after = [_known(self.inside, carry.output, self.inner) for carry in carries]
        results = iter(self.inside.own([*after, *(self.inner[scans[i].row] for i in written)]))
        for carry in carries:
            start = _known(self.op, carry.initial, self.outer)
            self.more.carried.append((start, self.inner[carry.input], next(results)))
        for index in written:
            self.more.written.append((next(results), scans[index].axis, scans[index].reverse))
        return written


def _stand_in(
    op: GradientBuilder, before: Sequence[ir.Value], now: Sequence[ir.Value], tangents: Tangents
) -> None:
    """Let values be what those were that they have taken the place of."""
    for old, new in zip(before, now, strict=True):
        if old in op.active:
            op.active.add(new)
        if old in tangents:
            tangents[new] = tangents[old]


def _declared(
    op: GradientBuilder, values: Sequence[ir.Value], found: Sequence[ir.Value | None]
) -> Sequence[ir.Value | None]:
    """Give the tangents that a node returns the names, types and shapes that belong to values."""
    for value, tangent in zip(values, found, strict=True):
        if tangent is not None:
            _name(op, tangent, value, "tangent")
    return found


def _like(op: GradientBuilder, value: ir.Value, suffix: str) -> ir.Value:
    """Return a new value that stands for the tangent, or the cotangent, of a value."""
    return _name(op, ir.Value(), value, suffix)


def _name(op: GradientBuilder, new: ir.Value, value: ir.Value, suffix: str) -> ir.Value:
    new.name = op.names.fresh(f"{value.name}_{suffix}")
    new.type = op.cotangent_type(value)
    new.shape = value.shape
    return new


def _known(op: GradientBuilder, value: ir.Value, tangents: Tangents) -> ir.Value:
    """Return the tangent of a value, zeros if it has none."""
    return tangents[value] if value in tangents else op.zeros_like(value)

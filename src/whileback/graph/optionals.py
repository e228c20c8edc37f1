"""Optionals as what is in them and, where they may be empty, a boolean that tells whether they are.

In a graph written so nothing is an optional but its inputs and outputs. What was one is the tensor
or the sequence that it held; one without an element is a placeholder, of the shape of the others
where that is known. Loops and branches carry and return the booleans beside such values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.containers import content, is_sequence, without_names
from whileback.graph.loops import More, extend_loop
from whileback.graph.moving import become, put_first, taken_out
from whileback.graph.names import Names
from whileback.graph.scopes import (
    STANDARD_DOMAINS,
    branches,
    definitions,
    is_loop,
    is_standard,
    loop_view,
    subgraphs,
    walk,
    walk_graphs,
)
from whileback.graph.shapes import Shapes, static_shape

__all__ = ["unwrap_optionals"]

# A condition, and whether it holds.
Fact = tuple[ir.Value, bool]


def unwrap_optionals(graph: ir.Graph) -> None:
    """Put what is in the optionals of a graph in normal form in their places: that has a gradient.

    Its outputs stay what they are, and so does the error where an optional without element is read.
    """
    if _has_optionals(graph):
        shapes = Shapes(graph.opset_imports)
        shapes.reserve(graph)
        _Unwrapping(Builder(graph, Names.of(graph), shapes)).run()
        shapes.infer_graph(graph)


def _is_optional(value: ir.Value) -> bool:
    return isinstance(value.type, ir.OptionalType)


def _has_optionals(graph: ir.Graph) -> bool:
    operators = ("Optional", "OptionalGetElement", "OptionalHasElement")
    uses_any = any(is_standard(node, *operators) for node in walk(graph))
    return uses_any or any(map(_is_optional, graph.inputs))


def _may_be_empty(graph: ir.Graph) -> set[ir.Value]:
    """Return the optionals, in every scope, that may be without element.

    Among them is what a loop declares to be a sequence although it starts as such an optional.
    """
    found, before = set(filter(_is_optional, graph.inputs)), -1
    while len(found) > before:
        before = len(found)
        for node in walk(graph):
            found.update(_left_empty(node, found))
    return found


def _left_empty(node: ir.Node, found: set[ir.Value]) -> Iterator[ir.Value]:
    """Yield what a node gives that may be without element, as those found may be."""
    if is_loop(node):
        for carry in loop_view(node).carries:
            if not found.isdisjoint((carry.initial, carry.output)):
                yield from (carry.input, carry.result)
    elif is_standard(node, "If"):
        for branch in branches(node):
            results = zip(branch.outputs, node.outputs, strict=True)
            yield from (result for inner, result in results if inner in found)
    elif _hands_on(node):
        source, (result,) = _source(node), node.outputs
        if source in found or (source is None and _is_optional(result)):
            yield result


def _hands_on(node: ir.Node) -> bool:
    """Tell whether a node hands on its input; without one, there is no element in its output."""
    return node.op_type in ("Identity", "Optional") and node.domain in STANDARD_DOMAINS


def _source(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if node.inputs else None


def _fact(condition: ir.Value, holds: bool) -> Fact:
    """Return what a condition says of what it is made of by `Not`, if it holds or does not."""
    node = condition.producer()
    while node is not None and is_standard(node, "Identity", "Not"):
        source = _source(node)
        assert source is not None
        condition, holds = source, holds is (node.op_type == "Identity")
        node = condition.producer()
    return condition, holds


class _Unwrapping:
    """A graph on its way to one without optionals inside."""

    def __init__(self, op: Builder) -> None:
        self.op = op
        self.graph = op.graph
        self.empty = _may_be_empty(op.graph)
        # For what may be without element, whether it has one.
        self.filled: dict[ir.Value, ir.Value] = {}
        # What holds in the branch where this is.
        self.known: set[Fact] = set()
        op.role = "optional"

    def run(self) -> None:
        """Unwrap the inputs and all that is computed, and wrap the outputs again."""
        declared = {
            index: (value.type, value.shape)
            for index, value in enumerate(self.graph.outputs)
            if not value.is_graph_input() and (_is_optional(value) or value in self.empty)
        }
        for each in walk_graphs(self.graph):
            for value in filter(_is_optional, definitions(each)):
                if value not in self.graph.inputs:
                    value.type = content(value.type)
        for value in self.empty.difference(self.graph.inputs):
            value.shape = without_names(value.shape)  # that of a placeholder is another one
        elements = self._unwrap_inputs()
        self._rewrite(self.graph)
        put_first(self.graph, elements)
        for index, (type_, shape) in declared.items():
            self.graph.outputs[index] = self._wrapped(self.graph.outputs[index], type_, shape)

    def _unwrap_inputs(self) -> list[ir.Node]:
        """Let all that reads inputs of the model read what is in them; return what tells that."""
        first = self.op.inside("first")
        for value in filter(_is_optional, self.graph.inputs):
            uses = list(value.uses())
            element = self._element(first, value)
            for node, index in uses:
                node.replace_input_with(index, element)
        return taken_out(first.graph)

    def _element(self, op: Builder, value: ir.Value) -> ir.Value:
        """Return what is in an input of the model, or a placeholder."""
        filled = op.OptionalHasElement(value)
        (element,) = op.either(
            filled,
            lambda op: [op.OptionalGetElement(value)],
            lambda op: op.emit(*_placeholder(op, value)),
        )
        element.type = content(value.type)
        self.filled[element] = filled
        return element

    def _rewrite(self, graph: ir.Graph) -> None:
        for node in list(graph):
            if is_loop(node):
                self._rewrite_loop(node)
            elif is_standard(node, "If"):
                self._rewrite_if(node)
            elif _hands_on(node):
                self._hand_on(node)
            elif is_standard(node, "OptionalHasElement", "OptionalGetElement"):
                self._look_inside(node)
            else:
                for inner in subgraphs(node):
                    self._rewrite(inner)

    def _hand_on(self, node: ir.Node) -> None:
        source, (result,) = _source(node), node.outputs
        if source in self.filled:
            self.filled[result] = self.filled[source]
        if source is None:
            self.filled[result] = self._is_filled(None)
            become(node, *_placeholder(self.op, result))
        elif node.op_type == "Optional":
            become(node, "Identity", [source])

    def _look_inside(self, node: ir.Node) -> None:
        source = _source(node)
        if node.op_type == "OptionalHasElement" or source is None:
            become(node, "Identity", [self._is_filled(source)])
        elif source not in self.filled or _fact(self.filled[source], True) in self.known:
            become(node, "Identity", [source])
        else:
            some, none = (self._at(node, self.op.inside(name).graph) for name in ("some", "none"))
            some.graph.outputs.extend(some.own([source]))
            none.graph.outputs.append(none.OptionalGetElement(_nothing(none, node.outputs[0])))
            sides = {"then_branch": some.graph, "else_branch": none.graph}
            become(node, "If", [self.filled[source]], sides)

    def _is_filled(self, value: ir.Value | None) -> ir.Value:
        known = None if value is None else self.filled.get(value)
        return self.op.constant(value is not None) if known is None else known

    def _at(self, node: ir.Node, graph: ir.Graph) -> Builder:
        """Return a builder that emits for a node."""
        op = self.op.within(graph)
        op.origin = node
        return op

    def _rewrite_if(self, node: ir.Node) -> None:
        """Let branches return, for what may be without element, whether it has one."""
        places = [index for index, value in enumerate(node.outputs) if value in self.empty]
        test, around = node.inputs[0], self.known
        assert test is not None
        for branch, taken in zip(branches(node), (True, False), strict=True):
            self.known = around | {_fact(test, taken)}
            self._rewrite(branch)
            tell = [self._is_filled(branch.outputs[index]) for index in places]
            branch.outputs.extend(self._at(node, branch).own(tell))
        self.known = around
        count = len(node.outputs)
        node.resize_outputs(count + len(places))
        for index, filled in zip(places, node.outputs[count:], strict=True):
            self._tell(node.outputs[index], filled)

    def _rewrite_loop(self, node: ir.Node) -> None:
        """Let a loop carry, beside what may be without element, whether it has one."""
        carried = [carry.input for carry in loop_view(node).carries if carry.input in self.empty]
        for value in carried:
            self._tell(value, ir.Value())
        self._rewrite(loop_view(node).body)
        view = loop_view(node)  # a loop inside may have given values in the place of others
        places = [index for index, carry in enumerate(view.carries) if carry.input in carried]
        if not places:
            return
        carries = [view.carries[index] for index in places]
        after = self._at(node, view.body).own(self._is_filled(each.output) for each in carries)
        starts = [self._is_filled(each.initial) for each in carries]
        inside = [self.filled[each.input] for each in carries]
        more = More(carried=list(zip(starts, inside, after, strict=True)))
        values, added = extend_loop(view, more)
        for index, filled in zip(places, added, strict=True):
            self._tell(values[index], filled)

    def _tell(self, value: ir.Value, filled: ir.Value) -> None:
        """Let one value tell whether another one has an element."""
        filled.name = self.op.names.fresh(f"{value.name}/filled")
        filled.type, filled.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
        self.filled[value] = filled

    def _wrapped(
        self, value: ir.Value, type_: ir.TypeProtocol | None, shape: ir.Shape | None
    ) -> ir.Value:
        """Return what an output of the model was, under its name."""
        op, name, filled = self.op, value.name, self.filled.get(value)
        value.name = op.names.fresh(f"{name}/element")
        if filled is None:
            result = op.Optional(value)
        elif isinstance(type_, ir.OptionalType):
            (result,) = op.either(
                filled, lambda op: [op.Optional(value)], lambda op: [_nothing(op, value)]
            )
        else:
            result = _made_by_loop(op, value, filled)
        result.name, result.type, result.shape = name, type_, shape
        return result


def _made_by_loop(op: Builder, value: ir.Value, filled: ir.Value) -> ir.Value:
    """Return a sequence if it is there, by a loop of one trip: of none, an empty optional is left.

    Only of such a loop the result may have another type than it had at first.
    """
    start = _nothing(op, value)
    inside = op.inside("made")
    inputs = [op.new_scalar("trip", ir.DataType.INT64), op.new_scalar("proceed", ir.DataType.BOOL)]
    carried = ir.Value(name=op.names.fresh("nothing"), type=start.type)
    inside.graph.inputs.extend([*inputs, carried])
    inside.graph.outputs.extend([inputs[1], *inside.own([value])])
    return op.Loop(op.Cast(filled, to=int(ir.DataType.INT64)), None, start, body=inside.graph)


def _nothing(op: Builder, value: ir.Value) -> ir.Value:
    """Return an optional without element, for elements of the type of a value."""
    assert value.type is not None
    shape = value.shape if static_shape(value) is not None else None
    held = ir.AttrTypeProto("type", ir.TypeAndShape(value.type, shape))
    return op.emit("Optional", [], {"type": held})[0]


def _placeholder(op: Builder, value: ir.Value) -> tuple[str, list[ir.Value], dict[str, Any]]:
    """Return what makes a value of a type, where it does not count: operator, inputs, attributes.

    A tensor of the sizes that are known, and without elements if some are not.
    """
    dtype = value.dtype
    assert dtype is not None
    if is_sequence(value):
        return "SequenceEmpty", [], {"dtype": int(dtype)}
    shape = [0] if value.shape is None else value.shape
    dims = [dim if isinstance(dim, int) else 0 for dim in shape]
    if dtype == ir.DataType.STRING:
        return "Identity", [op.constant(np.full(dims, b"", object))], {}
    zero = ir.tensor(np.zeros(1, dtype.numpy()))
    return "ConstantOfShape", [op.constant(np.array(dims, np.int64))], {"value": zero}

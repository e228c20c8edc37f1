"""The gradient of `SequenceMap`: a `SequenceMap` of the vjp of its body."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.registry import rule
from whileback.gradient.rules.controlflow.draws import run_again
from whileback.gradient.rules.controlflow.frames import choose_frames, residuals
from whileback.gradient.rules.controlflow.prices import Terms
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.graph.cleanup import prune
from whileback.graph.containers import element_of, is_sequence
from whileback.graph.copying import ValueMap
from whileback.graph.moving import put_first
from whileback.graph.scopes import captures, definitions, walk
from whileback.graph.shapes import describe


@rule("SequenceMap")
def sequence_map(
    op: GradientBuilder, node: ir.Node, *received: ir.Value | None
) -> Sequence[ir.Value | None]:
    """Yᵢ = body(Xᵢ, u), so dXᵢ is the body's vjp for dYᵢ, and du the sum of those for all i."""
    return _Map(op, node, received).gradients()


class _Map:
    """The body's vjp as the body of another map."""

    def __init__(
        self, op: GradientBuilder, node: ir.Node, received: Sequence[ir.Value | None]
    ) -> None:
        self.op, self.node = op, node
        self.body = node.attributes["body"].as_graph()
        self.inside = op.inside(f"{node.name}/grad/body")
        self.inside.in_map = True
        self.sequences: list[ir.Value] = []
        known = self._differentiate(received)
        read = [*self.body.inputs, *captures(self.body)]
        self.wanted = [value for value in read if value in op.active and value in known]
        self.inside.graph.outputs.extend(self.inside.own(known[value] for value in self.wanted))
        prune(self.inside.graph)
        self._obtain_residuals()

    def gradients(self) -> Sequence[ir.Value | None]:
        """Emit the map, and sums over the elements for what all of them read."""
        count = len(self.wanted)
        if not count:
            return []
        body = {"body": self.inside.graph}
        results = self.op.emit("SequenceMap", self.sequences, body, outputs=count)
        outside = dict(zip(self.body.inputs, self.node.inputs, strict=True))
        given: dict[ir.Value, ir.Value] = {}
        for value, result in zip(self.wanted, results, strict=True):
            source = outside.get(value) or value
            is_element = value in outside and is_sequence(source)
            given[value] = result if is_element else self._total(result, source)
        return [given.get(value) for value in (*self.body.inputs, *captures(self.body))]

    def _read(self, sequence: ir.Value) -> ir.Value:
        """Return an element of a sequence, which becomes an input of the map."""
        self.sequences.append(sequence)
        element = element_of(self.op, sequence)
        self.inside.graph.inputs.append(element)
        return element

    def _differentiate(self, received: Sequence[ir.Value | None]) -> Cotangents:
        pairs = zip(self.body.outputs, received, strict=True)
        known: Cotangents = {value: self._read(d) for value, d in pairs if d is not None}
        backward(self.inside, list(self.body), known)
        self.inside.origin = self.node
        return known

    def _obtain_residuals(self) -> None:
        """Let the map read what the body's vjp reads of the body.

        In a loop that is computed again: the sequences of its trips cannot be kept.
        """
        body, gradient = self.body, self.inside.graph
        again = set(definitions(body)) if self.op.in_loop else set()
        needed = residuals(gradient, body)
        terms = Terms(set(body.inputs), varying=again, once=False)
        frames = choose_frames(self.op, body, needed, terms)
        replaced: ValueMap = {}
        copies = [copy for each in frames.again for copy in run_again(self.op, each, replaced)]
        put_first(gradient, copies)
        users = set(walk(gradient))
        for value in frames.kept:
            replaced[value] = self._read(self._keep(value))
        for value, outside in zip(body.inputs, self.node.inputs, strict=True):
            if outside is not None and any(use.node in users for use in value.uses()):
                replaced[value] = self._read(outside) if is_sequence(outside) else outside
        for old, new in replaced.items():
            replace_uses(old, new, users)

    def _keep(self, value: ir.Value) -> ir.Value:
        """Return the sequence of what a value is for each element; the map is made to give it."""
        copy = ir.node("Identity", [value], name=self.op.names.fresh(f"{value.name}/kept"))
        output = copy.outputs[0]
        output.name, output.type, output.shape = copy.name, value.type, value.shape
        self.body.append(copy)
        self.body.outputs.append(output)
        self.node.resize_outputs(len(self.node.outputs) + 1)
        result = self.node.outputs[-1]
        result.name = self.op.names.fresh(f"{value.name}/kept")
        result.type = None if value.type is None else ir.SequenceType(value.type)
        return result

    def _total(self, parts: ir.Value, value: ir.Value) -> ir.Value:
        """Return the sum of a sequence, of zeros as well, since a sequence may be empty."""
        if not isinstance(value.type, ir.TensorType):
            raise UnsupportedError(
                f"The body of '{self.node.name}' (SequenceMap) reads '{value.name}' "
                f"({describe(value)}) from outside, and its gradient would be a sequence of "
                "sequences. Pass the tensors that it needs as inputs of the node."
            )
        op = self.op
        every = op.SequenceInsert(parts, op.zeros_like(value))
        return op.ReduceSum(op.ConcatFromSequence(every, axis=0, new_axis=1), [0], keepdims=0)

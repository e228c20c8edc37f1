"""What it costs to keep each value of a body, and to run each of its nodes again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.changes import Change
from whileback.gradient.rules.controlflow.choice import Step
from whileback.gradient.rules.controlflow.costs import NODE, READ, ROW, keeping, work
from whileback.gradient.rules.controlflow.decisions import deciding
from whileback.gradient.rules.controlflow.draws import draw, drawn_inside
from whileback.gradient.rules.controlflow.stacked import on_stacks
from whileback.graph.randomness import draws
from whileback.graph.scopes import definitions, is_standard, operands, subgraphs

__all__ = ["IMPOSSIBLE", "Again", "Prices", "Terms"]

# What may be done on the way back: to run a node again, or to undo a change.
Again = ir.Node | Change

# Added to the cost of what had better not be done: to keep what was to be computed again, to fill
# up what changes its shape, for each nanosecond that it takes, to take a sequence apart in every
# trip; and of what cannot be done.
# Each is beyond all that less can cost, such as loops in loops in loops.
ASKED_NOT_TO, FILLED_UP, TAKEN_APART, IMPOSSIBLE = 10**30, 10**40, 10**50, 10**60


@dataclass(frozen=True)
class Terms:
    """What is there anyway, and what must not be kept.

    Attributes:
        given: values that the way back has anyway: the trip number, rows of scan inputs.
        undoable: changes that the way back can undo, to have carried values as they were.
        varying: values whose shape changes from trip to trip; they are filled up to be stacked.
        written: values of which there are stacks anyway.
        again: values that are kept only if there is no other way.
        once: whether what depends on captured values alone is computed again, once for all trips.
        sized: carried values that have the size of another value in every trip.
    """

    given: Collection[ir.Value] = ()
    undoable: Sequence[Change] = ()
    varying: Collection[ir.Value] = ()
    written: Collection[ir.Value] = ()
    again: Collection[ir.Value] = ()
    once: bool = True
    sized: Mapping[ir.Value, ir.Value] = field(default_factory=dict)


class Prices:
    """The values and nodes of a body that may have a part in the choice, and what they cost.

    Attributes:
        keeping: what it costs to keep each value that is not there for free.
        makers: what gives such a value again: the node that computes it, or undoing a change.
        steps: all of these.
        fixed: the nodes that do the same in every trip, and can run once for all of them.
        deciding: values that must not be computed again.
    """

    def __init__(self, op: GradientBuilder, body: ir.Graph, terms: Terms) -> None:
        self.op = op
        self.terms = terms
        self.surfaced = set(op.drawn.values())
        self.inside = {v for v in definitions(body) if v.producer() or v.is_graph_input()}
        self.fixed = set(self._fixed_nodes(body)) if terms.once else set()
        self.stacked = set(self._stacked_nodes(body)) if terms.once else set()
        self.deciding = deciding(body, self.stacked).difference(terms.varying)
        self.changes = {value: each for each in terms.undoable for value in each.versions}
        self.keeping: dict[ir.Value, int] = {}
        self.makers: dict[ir.Value, Again] = {}
        self.steps: dict[Again, Step[ir.Value]] = {}

    def explore(self, needed: Collection[ir.Value]) -> None:
        """Find all that may have a part in having what is needed."""
        pending = list(needed)
        while pending:
            value = pending.pop()
            if value not in self.inside or value in self.keeping:
                continue
            self.keeping[value] = self._to_keep(value)
            maker = self._maker(value)
            if maker is not None:
                self.makers[value] = maker
                self.steps[maker] = step = self.steps.get(maker) or self._step(maker)
                pending += step.reads

    def is_drawn(self, value: ir.Value) -> bool:
        """Tell whether the value is what a node draws, or tells what is drawn inside of it."""
        node = value.producer()
        if node is None or value in self.surfaced:
            return node is not None
        return draws(node) and not subgraphs(node) and value is draw(self.op, node)

    def _maker(self, value: ir.Value) -> Again | None:
        if value in self.changes:
            return self.changes[value]
        is_read = value in self.terms.given or self.is_drawn(value) or value in self.deciding
        return None if is_read else value.producer()

    def _to_keep(self, value: ir.Value) -> int:
        if value in self.terms.given or value in self.terms.written:
            return READ if self.terms.once else 0
        if value in self.changes:
            return IMPOSSIBLE
        return keeping(value) + self._hindrance(value)

    def _hindrance(self, value: ir.Value) -> int:
        """Return what it costs to keep the value because of what it is, beside its bytes."""
        if self.is_drawn(value):
            return 0
        if not isinstance(value.type, ir.TensorType):
            return TAKEN_APART
        if value in self.terms.varying:
            return FILLED_UP * keeping(value)
        return ASKED_NOT_TO if value in self.terms.again else 0

    def _step(self, maker: Again) -> Step[ir.Value]:
        if isinstance(maker, Change):
            return Step((), len(maker.steps) * (NODE + 2 * ROW))
        return self._run(maker)

    def _run(self, node: ir.Node) -> Step[ir.Value]:
        """Return what the node reads, what it drew included, and what it costs to run it."""
        drawn = self._drawn_for(node)
        read = self._read(node)
        if drawn is None:
            return Step(read, IMPOSSIBLE)
        cost = 0 if node in self.fixed else work(node)
        launch = 0 if node in self.fixed or node in self.stacked else NODE
        return Step([*read, *drawn], cost + launch)

    def _read(self, node: ir.Node) -> list[ir.Value]:
        """Return what the node reads, but for a size that is there before the loop."""
        asks, sized = is_standard(node, "Shape", "Size"), self.terms.sized
        return [v for v in operands(node) if v is not None and not (asks and v in sized)]

    def _drawn_for(self, node: ir.Node) -> list[ir.Value] | None:
        """Return what the node needs in order not to draw again; None if that cannot be kept."""
        if not draws(node):
            return []
        return drawn_inside(self.op, node) if subgraphs(node) else [draw(self.op, node)]

    def _fixed_nodes(self, body: ir.Graph) -> Iterator[ir.Node]:
        """Yield the nodes that read nothing of a trip, directly or not."""
        trip = set(self.inside)
        for node in body:
            if trip.isdisjoint(self._read(node)) and not draws(node):
                trip.difference_update(node.outputs)
                yield node

    def _stacked_nodes(self, body: ir.Graph) -> Iterator[ir.Node]:
        """Yield the nodes that, computed again, are computed for all trips at once.

        That takes stacks of all that they read: rows that are kept, since to compute them again
        would cost more, or results of other such nodes.
        """
        rows = self.inside.difference(*(node.outputs for node in self.fixed))
        stacks = {value for value in rows if value.is_graph_input()}
        for node in body:
            read = rows.intersection(v for v in node.inputs if v is not None)
            if read and read <= stacks and on_stacks(node, read) is not None:
                stacks.update(node.outputs)
                yield node
            else:
                cost = NODE + work(node)
                stacks.update(v for v in node.outputs if draws(node) or keeping(v) <= cost)

"""What a trip keeps for its reverse trip: a row of the tape for as few values as possible."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.rules.controlflow.draws import draw, drawn_inside
from whileback.graph.randomness import draws
from whileback.graph.scopes import captures, definitions, is_standard, operands, subgraphs

__all__ = ["PLAN", "Frames", "Plan", "choose_frames", "residuals"]

# Where a loop's node has its `Plan`, among its `meta`.
PLAN = "whileback.plan"

# One pass over memory or less: cheaper to do again than to keep.
CHEAP = frozenset(
    "Abs Add And Cast Equal Greater GreaterOrEqual Identity Less LessOrEqual Mul Neg Not Or "
    "Relu Reshape Sign Squeeze Sub Unsqueeze Where Xor".split()
)
# The longest row of them that is done again rather than keep what it ends in.
CHAIN = 4


def residuals(gradient: ir.Graph, forward: ir.Graph) -> list[ir.Value]:
    """Return the values of the forward graph that the gradient graph reads, in forward order."""
    read = set(captures(gradient))
    return [value for value in definitions(forward) if value in read]


@dataclass(frozen=True)
class Plan:
    """What is done with a loop: loops put around its trips, whether its body runs again, why."""

    levels: int
    recompute: bool
    reason: str


@dataclass
class Frames:
    """How each value that the way back reads is had: kept, computed again, or the next row."""

    kept: list[ir.Value] = field(default_factory=list)
    again: list[ir.Node] = field(default_factory=list)
    outside: list[ir.Node] = field(default_factory=list)


class _Chooser:
    def __init__(
        self,
        op: GradientBuilder,
        body: ir.Graph,
        given: set[ir.Value],
        varying: set[ir.Value],
        once: bool,
    ) -> None:
        self.op = op
        self.surfaced = set(op.drawn.values())
        self.order = {node: index for index, node in enumerate(body)}
        self.inside = set(definitions(body))
        self.given = given
        self.varying = varying
        self.kept: dict[ir.Value, None] = {}
        self.again: set[ir.Node] = set()
        self.invariant = self._invariant_nodes(body) if once else set()
        self.bound = _bound_to_containers(body)

    def _invariant_nodes(self, body: ir.Graph) -> set[ir.Node]:
        found: set[ir.Node] = set()
        fixed = set(body.initializers.values()) - set(body.inputs)
        for node in body:
            read = [value for value in operands(node) if value is not None]
            if all(v not in self.inside or v in fixed for v in read) and not draws(node):
                found.add(node)
                fixed.update(node.outputs)
        return found

    def obtain(self, value: ir.Value) -> None:
        """Decide how the way back gets the value, and what it takes to compute it again."""
        pending = [value]
        while pending:
            pending += self._decide(pending.pop())

    def _decide(self, value: ir.Value) -> list[ir.Value]:
        """Decide on one value; return those that are needed for it."""
        node = value.producer()
        if self._at_hand(value) or (node is None and not value.is_graph_input()):
            return []
        is_tensor = isinstance(value.type, ir.TensorType)
        drawn = node is not None and self._is_drawn(node, value)
        if node is not None and not drawn and (self._is_again(node, value) or not is_tensor):
            self.again.add(node)
            return [*self._drawn_for(node), *reversed(list(filter(None, operands(node))))]
        if drawn and value in self.varying:
            raise UnsupportedError(_cannot_keep_draws(value))
        self.kept[value] = None
        return []

    def _is_drawn(self, node: ir.Node, value: ir.Value) -> bool:
        """Tell whether the value is what a node draws, or tells what is drawn inside of it."""
        own = draws(node) and not subgraphs(node)
        return value in self.surfaced or (own and value is draw(self.op, node))

    def _drawn_for(self, node: ir.Node) -> list[ir.Value]:
        """Return the values that a node, which draws, needs in order not to draw again."""
        if not draws(node):
            return []
        if not subgraphs(node):
            return [draw(self.op, node)]
        drawn = drawn_inside(self.op, node)
        if drawn is None:
            raise UnsupportedError(_cannot_keep_draws(node.outputs[0]))
        return drawn

    def _is_again(self, node: ir.Node, value: ir.Value) -> bool:
        if node in self.bound:
            return False
        return node in self.invariant or value in self.varying or self._is_cheap(node, CHAIN)

    def _is_cheap(self, node: ir.Node, chain: int) -> bool:
        """Tell whether at most so many cheap nodes in a row lead here from what is at hand."""
        if not chain or not is_standard(node, *CHEAP):
            return False
        return all(
            value is None
            or self._at_hand(value)
            or ((source := value.producer()) is not None and self._is_cheap(source, chain - 1))
            for value in node.inputs
        )

    def _at_hand(self, value: ir.Value) -> bool:
        """Tell whether the way back has the value without keeping more."""
        if value not in self.inside or value in self.given or value in self.kept:
            return True
        node = value.producer()
        return node in self.again and not self._is_drawn(node, value)


def choose_frames(
    op: GradientBuilder,
    body: ir.Graph,
    needed: list[ir.Value],
    given: set[ir.Value],
    varying: set[ir.Value],
    *,
    once: bool = True,
) -> Frames:
    """Decide, for all that the way back reads, what is kept and what is computed again.

    Args:
        op: knows what is drawn.
        body: the forward body.
        needed: its values that the backward body reads, in forward order.
        given: values that the way back has anyway: the trip number, rows of scan inputs.
        varying: values whose shape changes from trip to trip; they cannot be stacked.
        once: whether what depends on captured values alone is computed again, once for all trips.

    Raises:
        UnsupportedError: if the shape of what is drawn at random changes from trip to trip.
    """
    chooser = _Chooser(op, body, given, varying, once)
    for value in needed:
        chooser.obtain(value)
    again = sorted(chooser.again, key=lambda node: chooser.order[node])
    return Frames(
        kept=list(chooser.kept),
        again=[node for node in again if node not in chooser.invariant],
        outside=[node for node in again if node in chooser.invariant],
    )


def _bound_to_containers(body: ir.Graph) -> set[ir.Node]:
    """Return the nodes that cannot run again without a sequence that the loop carries."""
    found: set[ir.Node] = set()
    held = {value for value in body.inputs if not isinstance(value.type, ir.TensorType)}
    for node in body:
        if not held.isdisjoint(operands(node)):
            found.add(node)
            held.update(v for v in node.outputs if not isinstance(v.type, ir.TensorType))
    return found


def _cannot_keep_draws(value: ir.Value) -> str:
    node = value.producer()
    assert node is not None
    return (
        f"Node '{node.name}' ({node.op_type}) draws random numbers inside a loop, and the way back "
        "cannot keep them, since their shape changes from trip to trip. Draw as many numbers in "
        "every trip, or draw before the loop and pass the numbers in."
    )

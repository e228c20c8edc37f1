"""What a trip keeps for its reverse trip: a row of the tape for as few values as possible."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.randomness import draws
from whileback.graph.scopes import captures, definitions, is_standard, operands
from whileback.graph.shapes import describe

__all__ = ["Frames", "choose_frames", "residuals"]

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


@dataclass
class Frames:
    """How each value that the way back reads is had: kept, computed again, or the next row."""

    kept: list[ir.Value] = field(default_factory=list)
    again: list[ir.Node] = field(default_factory=list)
    outside: list[ir.Node] = field(default_factory=list)


class _Chooser:
    def __init__(
        self, body: ir.Graph, given: set[ir.Value], varying: set[ir.Value], once: bool
    ) -> None:
        self.order = {node: index for index, node in enumerate(body)}
        self.inside = set(definitions(body))
        self.given = given
        self.varying = varying
        self.kept: dict[ir.Value, None] = {}
        self.again: set[ir.Node] = set()
        self.invariant = self._invariant_nodes(body) if once else set()

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
        if node is not None and (self._is_computed_again(node, value) or not is_tensor):
            _refuse_draws(node)
            self.again.add(node)
            return [operand for operand in reversed(operands(node)) if operand is not None]
        if value in self.varying or not is_tensor:
            raise UnsupportedError(_cannot_keep(value))
        self.kept[value] = None
        return []

    def _is_computed_again(self, node: ir.Node, value: ir.Value) -> bool:
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
        return value.producer() in self.again


def choose_frames(
    body: ir.Graph,
    needed: list[ir.Value],
    given: set[ir.Value],
    varying: set[ir.Value],
    *,
    once: bool = True,
) -> Frames:
    """Decide, for all that the way back reads, what is kept and what is computed again.

    Args:
        body: the forward body.
        needed: its values that the backward body reads, in forward order.
        given: values that the way back has anyway: the trip number, rows of scan inputs.
        varying: values whose shape changes from trip to trip; they cannot be stacked.
        once: whether what depends on captured values alone is computed again, once for all trips.

    Raises:
        UnsupportedError: if a value that must be kept has no constant shape.
    """
    chooser = _Chooser(body, given, varying, once)
    for value in needed:
        chooser.obtain(value)
    again = sorted(chooser.again, key=lambda node: chooser.order[node])
    return Frames(
        kept=list(chooser.kept),
        again=[node for node in again if node not in chooser.invariant],
        outside=[node for node in again if node in chooser.invariant],
    )


def _refuse_draws(node: ir.Node) -> None:
    if draws(node):
        raise UnsupportedError(
            f"Node '{node.name}' ({node.op_type}) draws random numbers inside a loop, and the way "
            "back would have to draw again. Draw before the loop and pass the numbers in."
        )


def _cannot_keep(value: ir.Value) -> str:
    return (
        f"Value '{value.name}' ({describe(value)}) in a loop's body changes its shape from trip to "
        "trip, or is no tensor, and the gradient needs it from every trip. Such values cannot be "
        "kept yet: give it a fixed shape (pad it, with its length beside it), or collect rows with "
        "a scan output instead."
    )

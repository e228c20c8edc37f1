"""The body of a reverse loop: the vjp of the forward body, before it is told what to read."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.activity import carries_reached
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.rules.controlflow.changes import changes
from whileback.gradient.rules.controlflow.frames import residuals
from whileback.gradient.rules.controlflow.products import (
    Bodies,
    Product,
    is_inner,
    split_products,
    summed,
)
from whileback.gradient.rules.controlflow.reverse import Row
from whileback.gradient.rules.controlflow.structure import move_forward
from whileback.gradient.rules.controlflow.tape import replace_uses
from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.graph.cleanup import prune
from whileback.graph.containers import is_sequence, without_names
from whileback.graph.scopes import (
    Carry,
    LoopView,
    ScanInput,
    behind_identity,
    captures,
    is_standard,
    operands,
    walk,
)
from whileback.graph.shapes import HALVES

__all__ = ["ReverseBody"]


class ReverseBody:
    """The vjp of a loop's body, one trip of it; still reads values of the forward body.

    The outputs of `op.graph` are, in this order: the gradients of the carried values (`carries`),
    of the rows that the forward loop reads (`inputs`), what is summed over trips (`sums`), and
    the factors of the products that are made after the loop (`products`).
    """

    def __init__(
        self,
        op: GradientBuilder,
        view: LoopView,
        received: dict[ir.Value, ir.Value],
        varying: set[ir.Value],
    ) -> None:
        self.view = view
        self.varying = varying
        self.op = op.inside(f"{view.node.name}/grad/body")
        self.op.in_loop = True
        self.undoable = changes(view)
        reached = carries_reached(view, set(received), op.active)
        self.carries = [view.carries[index] for index in reached]
        self.cotangents = [self._carried_cotangent(carry) for carry in self.carries]
        self.rows = [
            Row(self.cotangent_of(scan.row), received[scan.stack], scan.axis, not scan.reverse)
            for scan in view.scan_outputs
            if scan.stack in received
        ]
        known = self._differentiate(received)
        self.varying = self._varying()
        self._take_sizes_from_before_the_loop()
        self.inputs: list[ScanInput] = [s for s in view.scan_inputs if s.row in known]
        self.captured = [u for u in captures(view.body) if u in known and u in op.active]
        # What is computed once, before the loop.
        self.fixed: list[ir.Node] = []
        self.sums: list[ir.Value] = []
        # What the sums are before the trip; the body's outputs are what they are after it.
        self.totals: list[ir.Value] = []
        self.products: list[tuple[ir.Value, Product]] = []
        self._gather_results(known)
        self._split_sums()
        cotangents = [*self.carried, *(row.value for row in self.rows)]
        move_forward(self.op.graph, cotangents, view.body, varying)

    @property
    def carried(self) -> list[ir.Value]:
        """Return what the body will carry: cotangents, then sums."""
        return [*self.cotangents, *self.totals]

    def like(self, value: ir.Value, suffix: str) -> ir.Value:
        """Return a new value of the same type and shape, to become an input of the body."""
        name = self.op.names.fresh(f"{value.name}_{suffix}")
        shape = without_names(value.shape) if is_sequence(value) else value.shape
        return ir.Value(name=name, type=value.type, shape=shape)

    def cotangent_of(self, value: ir.Value) -> ir.Value:
        """Return a new value that stands for the cotangent of a value."""
        cotangent = self.like(value, "grad")
        cotangent.type = self.op.cotangent_type(value)
        return cotangent

    def _carried_cotangent(self, carry: Carry) -> ir.Value:
        """Return what stands for the cotangent of a carried value after the trip."""
        cotangent = self.cotangent_of(carry.input)
        if carry.input in self.varying and not is_sequence(carry.input):
            cotangent.shape = carry.output.shape
        return cotangent

    def residuals(self) -> list[ir.Value]:
        """Return the values of the forward body that this body reads."""
        return residuals(self.op.graph, self.view.body)

    def following(self) -> dict[ir.Value, Carry]:
        """Return the residuals that are the next trip's row of a carried value read as well.

        A carried value after the trip is the next trip's before it: one stack serves both.
        """
        needed = set(self.residuals()).difference(*(change.versions for change in self.undoable))
        return {
            value: carry
            for carry in self.view.carries
            if carry.input in needed and carry.input not in self.varying
            for value in (carry.output, behind_identity(carry.output))
            if value in needed and value.producer() is not None
        }

    def _differentiate(self, received: dict[ir.Value, ir.Value]) -> Cotangents:
        """Emit the body's vjp; return the cotangents of all that the body reads."""
        stacked = [scan for scan in self.view.scan_outputs if scan.stack in received]
        results = [carry.output for carry in self.carries] + [scan.row for scan in stacked]
        cotangents = self.cotangents + [row.value for row in self.rows]
        known: Cotangents = {}
        for value, cotangent in zip(results, cotangents, strict=True):
            earlier = known.get(value)
            known[value] = cotangent if earlier is None else self.op.plus(earlier, cotangent)
        backward(self.op, list(self.view.body), known)
        self.op.origin = self.view.node
        return known

    def _varying(self) -> set[ir.Value]:
        """Return the values of both bodies whose shape changes from trip to trip."""
        pairs = zip(self.carries, self.cotangents, strict=True)
        given = [cotangent for carry, cotangent in pairs if carry.input in self.varying]
        return shape_varies(self.view, set(self.op.drawn.values()), self.op.graph, given)

    def _take_sizes_from_before_the_loop(self) -> None:
        """Let no carried value be kept for its size alone."""
        for carry in self.view.carries:
            if carry.input in self.varying:
                continue
            for value in (carry.input, carry.output):
                users = {use.node for use in value.uses() if is_standard(use.node, "Shape", "Size")}
                replace_uses(value, carry.initial, users.intersection(walk(self.op.graph)))

    def _gather_results(self, known: Cotangents) -> None:
        carried = [
            known[carry.input] if carry.input in known else self._zeros(carry, value)
            for carry, value in zip(self.carries, self.cotangents, strict=True)
        ]
        rows = [known[scan.row] for scan in self.inputs]
        self._set_results([*carried, *rows, *(known[u] for u in self.captured)])

    def _zeros(self, carry: Carry, cotangent: ir.Value) -> ir.Value:
        """Return the cotangent of a carried value that the body does not read."""
        return self.op.zeros_like(carry.input if carry.input in self.varying else cotangent)

    def _set_results(self, values: Sequence[ir.Value]) -> None:
        """Make these the body's outputs, each a value of its own, and prune the rest."""
        outputs = self.op.own(values)
        self.op.graph.outputs.clear()
        self.op.graph.outputs.extend(outputs)
        prune(self.op.graph)

    def _split_sums(self) -> None:
        """Take the products out of what is summed over trips."""
        bodies = (self.op.graph, self.view.body)
        self._take_out_fixed(bodies)
        outputs = list(self.op.graph.outputs)
        first = len(outputs) - len(self.captured)
        # Of what is undone there will be no stacks, either.
        whole = self.varying.union(*(change.versions for change in self.undoable))
        split = [split_products(total, bodies, whole) for total in outputs[first:]]
        stacked = {behind_identity(f) for products, _ in split for p in products for f in p.factors}
        added = []
        for captured, (products, terms) in zip(self.captured, split, strict=True):
            later = [term for term in terms if behind_identity(term) in stacked]
            products += [summed(term) for term in later]
            self.products += [(captured, product) for product in products]
            total = self.op.add(*(term for term in terms if term not in later))
            if total is not None:
                self.sums.append(captured)
                self.totals.append(self._sum_of(captured))
                added.append(self.op.plus(self.totals[-1], self.op.cast(total, self.totals[-1])))
        factors = [factor for _, product in self.products for factor in product.factors]
        self._set_results([*outputs[:first], *added, *factors])

    def _sum_of(self, captured: ir.Value) -> ir.Value:
        """Return what stands for a sum over trips, which is made in FLOAT at least."""
        total = self.like(captured, "sum")
        total.type = self.op.cotangent_type(captured)
        if captured.dtype in HALVES and not is_sequence(captured):
            total.type = ir.TensorType(ir.DataType.FLOAT)
        return total

    def _take_out_fixed(self, bodies: Bodies) -> None:
        """Take out the nodes that read nothing of a trip, such as sizes of captured values."""
        results = set(self.op.graph.outputs)
        for node in list(self.op.graph):
            read = (value for value in operands(node) if value is not None)
            if any(is_inner(value, bodies) for value in read) or results & set(node.outputs):
                continue
            self.op.graph.remove(node)
            self.fixed.append(node)

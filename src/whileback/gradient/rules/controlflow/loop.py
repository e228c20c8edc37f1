"""The gradient of `Loop` and `Scan`: a reverse `Scan` over what the forward trips kept.

Forward, a loop of T trips computes `v, s_t = body(t, v, x_t; u)`: carried values v, scan inputs x,
scan outputs s, captured values u. Backward, trips T-1 … 0 compute
`dv, dx_t, du_t = body's vjp(dv, ds_t)`; the gradient of the initial v is the last dv, that of x
the stack of dx_t, that of u the sum of du_t. Zero trips hand dv on and give zeros for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.controlflow.changes import in_other_form
from whileback.gradient.rules.controlflow.draws import run_again, surface_draws
from whileback.gradient.rules.controlflow.emission import emit_reverse_loop
from whileback.gradient.rules.controlflow.frames import PLAN, Frames, Plan, choose_frames
from whileback.gradient.rules.controlflow.guard import guard
from whileback.gradient.rules.controlflow.implicit import ImplicitLoop, mark_of
from whileback.gradient.rules.controlflow.packed import pack, unpack
from whileback.gradient.rules.controlflow.padded import pad, unpad
from whileback.gradient.rules.controlflow.prices import Terms
from whileback.gradient.rules.controlflow.products import Product, postponed
from whileback.gradient.rules.controlflow.reasons import tape
from whileback.gradient.rules.controlflow.reverse import (
    Row,
    State,
    Written,
    take_out,
)
from whileback.gradient.rules.controlflow.reverse_body import ReverseBody
from whileback.gradient.rules.controlflow.tape import replace_uses, stack_of
from whileback.gradient.rules.controlflow.trips import (
    count_trips,
    may_make_no_trip,
)
from whileback.gradient.rules.controlflow.undoing import prepare_undo
from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.graph.cleanup import CHECK, prune
from whileback.graph.containers import is_sequence
from whileback.graph.copying import ValueMap, copy_node
from whileback.graph.moving import put_first, taken_out
from whileback.graph.scopes import Carry, LoopView, behind_identity, captures, loop_view, walk
from whileback.graph.shapes import ASSUMED, HALVES
from whileback.graph.tape import note_tape

__all__ = ["loop"]

_FLOAT = ir.DataType.FLOAT


@rule("Loop", "Scan")
def loop(
    op: GradientBuilder, node: ir.Node, *received: ir.Value | None
) -> Sequence[ir.Value | None]:
    """dv, dx, du = the body's vjp over all trips in reverse; dM = dcond = 0."""
    view = loop_view(node)
    captured = captures(view.body)
    known = {value: d for value, d in zip(node.outputs, received, strict=True) if d is not None}
    kind = _ReverseLoop if mark_of(node) is None else ImplicitLoop
    reverse = kind(op, view, known)
    gradients = dict(zip(reverse.wanted, reverse.emit(), strict=True))
    for carry in view.carries:
        if carry.input in gradients and ASSUMED in carry.input.meta:
            gradients[carry.input] = _checked(op, gradients[carry.input], carry)
    skipped = [None, None] if node.op_type == "Loop" else []
    return [
        *skipped,
        *(gradients.get(carry.input) for carry in view.carries),
        *(gradients.get(scan.row) for scan in view.scan_inputs),
        *(gradients.get(value) for value in captured),
    ]


def _checked(op: GradientBuilder, gradient: ir.Value, carry: Carry) -> ir.Value:
    """Let the run fail if a trip changed the shape of a carried value, which nothing had told."""
    checked = op.Reshape(gradient, op.Shape(carry.initial), allowzero=1)
    node = checked.producer()
    assert node is not None
    node.metadata_props[CHECK] = "1"
    node.name = op.names.fresh(f"a_trip_must_not_change_the_shape_of_{carry.input.name}")
    return checked


class _ReverseLoop:
    """Puts the loop around a reverse body: what it reads, carries and writes."""

    def __init__(
        self, op: GradientBuilder, view: LoopView, received: dict[ir.Value, ir.Value]
    ) -> None:
        self.op = op
        self.view = view
        self.received = received
        if not op.in_loop:
            surface_draws(op, view.body)
        varying = shape_varies(view, set(op.drawn.values()))
        self.body = ReverseBody(op, view, received, varying)
        self.graph = self.body.op.graph
        # What was moved into the forward body since may vary as well.
        self.varying = shape_varies(view, set(op.drawn.values()))
        self.following = self.body.following()
        rest = [value for value in self.body.residuals() if value not in self.following]
        self.frames = self._choose_frames(rest)
        self.undone = [prepare_undo(op, view, change) for change in self.frames.undone]
        kept = dict(self.frames.kept)
        for undo in self.undone:
            why = f"undoes what the trip does to {undo.change.carry.input.name}"
            kept |= dict.fromkeys(undo.values, why)
        self.varying |= shape_varies(view, set(op.drawn.values()))
        hard = [value for value in kept if value in self.varying]
        self._note(kept, hard)
        self.packed = pack(op, view, [value for value in hard if is_sequence(value)])
        parts = [part for each in self.packed for part in each.parts]
        self.padded = pad(op, view, [v for v in (*hard, *parts) if not is_sequence(v)])
        self.stacks = {value: stack_of(op, view, value) for value in self._stacked(list(kept))}
        self.count = count_trips(op, view)

    def _choose_frames(self, rest: list[ir.Value]) -> Frames:
        view = self.view
        given = {scan.row for scan in view.scan_inputs} | ({view.trip} if view.trip else set())
        written = {scan.row for scan in view.scan_outputs if not (scan.axis or scan.reverse)}
        undone = set[ir.Value]().union(*(each.versions for each in self.body.undoable))
        again = in_other_form(view.body, undone)
        plan: Plan | None = view.node.meta.get(PLAN)
        if plan is not None and plan.recompute:
            again.update(*(node.outputs for node in view.body))
        given.update(self.following)
        terms = Terms(given, self.body.undoable, self.varying, written, again, sized=self.sized)
        return choose_frames(self.op, view.body, rest, terms)

    def _note(self, kept: Mapping[ir.Value, str], hard: list[ir.Value]) -> None:
        """Say at the forward loop what it keeps, and what costs more than that."""
        plan: Plan | None = self.view.node.meta.get(PLAN)
        if plan is not None:
            undone = [undo.change.carry.input for undo in self.undone]
            note_tape(self.view.node, tape(plan.reason, kept, hard, undone))

    def _stacked(self, kept: list[ir.Value]) -> list[ir.Value]:
        """Return the values of the body that become rows of stacks."""
        parts = [part for each in self.padded for part in (each.row, each.shape)]
        filled = {each.value for each in self.padded} | {each.value for each in self.packed}
        return [value for value in dict.fromkeys([*kept, *parts]) if value not in filled]

    @property
    def sized(self) -> dict[ir.Value, ir.Value]:
        """The carried values whose size does not change, and those before the loop."""
        return {c.input: c.initial for c in self.view.carries if c.input not in self.varying}

    @property
    def wanted(self) -> list[ir.Value]:
        """Whose gradients are emitted: values of the forward body, and captured ones."""
        carried = (carry.input for carry in self.body.carries)
        return [*carried, *(scan.row for scan in self.body.inputs), *self.body.captured]

    def emit(self) -> Sequence[ir.Value]:
        """Emit the reverse loop; give the gradients of what is wanted."""
        count = self.count if may_make_no_trip(self.view) else None
        return guard(self.op, count, self._some_trips, self._no_trips)

    def _no_trips(self, op: GradientBuilder) -> list[ir.Value]:
        stacks = (scan.stack for scan in self.body.inputs)
        return [
            *(self._start(op, carry) for carry in self.body.carries),
            *(op.zeros_like(value) for value in (*stacks, *self.body.captured)),
        ]

    def _start(self, op: GradientBuilder, carry: Carry) -> ir.Value:
        received = self.received.get(carry.result)
        return op.zeros_like(carry.result) if received is None else received

    def _some_trips(self, op: GradientBuilder) -> list[ir.Value]:
        """Emit what comes before the reverse loop, the loop, and what comes after it."""
        op.graph.extend(self.body.fixed)
        self._copy_forward_nodes(op)
        undone = [
            undo.emit(self.body.op, self.body.like(undo.change.carry.output, "row"))
            for undo in self.undone
        ]
        self._unpad()
        staying = [*self.body.carried, *(state.input for state in undone)]
        known = take_out(op, self.graph, self._rows(op), staying)
        stacks = {value: row.stack for value, row in known.items() if row.is_in_order}
        carried, rows, summed, factors = self._split_outputs()
        later = [
            postponed(value, stacks) if scan.is_in_order else None
            for value, scan in zip(rows, self.body.inputs, strict=True)
        ]
        products = self._products(factors)
        needed = [p for p in (*later, *(product for _, product in products)) if p is not None]
        read = dict.fromkeys(factor for product in needed for factor in product.factors)
        missing = [value for value in read if value not in stacks]
        written = [
            Written(value, scan.axis, not scan.reverse)
            for value, scan in zip(rows, self.body.inputs, strict=True)
            if not scan.is_in_order
        ]
        direct = len(written)
        written += [Written(value, 0, True) for value in missing]
        states = [*self._states(op, carried, summed), *undone]
        after, stacked = self._emit_loop(op, states, known, written)
        stacks.update(zip(missing, stacked[direct:], strict=True))
        others = iter(stacked[:direct])
        return [
            *after[: len(carried)],
            *(next(others) if p is None else _finish(op, p, stacks) for p in later),
            *self._totals(op, after[len(carried) :][: len(summed)], products, stacks),
        ]

    def _split_outputs(self) -> tuple[list[ir.Value], ...]:
        """Return the body's results: of carried values, of rows, summed over trips, factors."""
        outputs = iter(list(self.graph.outputs))
        body = self.body
        counts = (len(body.carries), len(body.inputs), len(body.sums))
        return (*(list(islice(outputs, count)) for count in counts), list(outputs))

    def _products(self, factors: list[ir.Value]) -> list[tuple[ir.Value, Product]]:
        """Return the products that make up sums, with the factors as the body has them now."""
        rest = iter(behind_identity(value) for value in factors)
        return [
            (captured, Product(tuple(islice(rest, len(product.factors))), product.finish))
            for captured, product in self.body.products
        ]

    def _emit_loop(
        self,
        op: GradientBuilder,
        states: list[State],
        known: dict[ir.Value, Row],
        written: list[Written],
    ) -> tuple[Sequence[ir.Value], Sequence[ir.Value]]:
        if not states and not written:
            return [], []
        results = [state.output for state in states] + [each.value for each in written]
        self.graph.outputs.clear()
        self.graph.outputs.extend(results)
        prune(self.graph)
        read = set(results)
        rows = [row for value, row in known.items() if value.uses() or value in read]
        carried = [*self.body.carries, *(undo.change.carry for undo in self.undone)]
        varies = any(carry.input in self.varying for carry in carried)
        varies |= any(is_sequence(value) for value in self.body.sums)
        return emit_reverse_loop(op, self.body.op, states, rows, written, self.count, varies)

    def _states(
        self, op: GradientBuilder, carried: list[ir.Value], summed: list[ir.Value]
    ) -> list[State]:
        """Return what the reverse loop carries: cotangents, and sums over trips, at least FLOAT."""
        body = self.body
        starts = [self._start(op, carry) for carry in body.carries]
        starts += [
            op.zeros_like(captured, _FLOAT if captured.dtype in HALVES else None)
            for captured in body.sums
        ]
        return list(map(State, starts, body.carried, [*carried, *summed]))

    def _totals(
        self,
        op: GradientBuilder,
        sums: Sequence[ir.Value],
        products: list[tuple[ir.Value, Product]],
        stacks: dict[ir.Value, ir.Value],
    ) -> list[ir.Value]:
        """Return the gradients of the captured values: sums, and products of stacks."""
        totals = {
            captured: op.cast(total, captured) if captured.dtype in HALVES else total
            for captured, total in zip(self.body.sums, sums, strict=True)
        }
        for captured, product in products:
            term = _finish(op, product, stacks)
            earlier = totals.get(captured)
            totals[captured] = term if earlier is None else op.plus(earlier, term)
        return [totals[captured] for captured in self.body.captured]

    def _rows(self, op: GradientBuilder) -> list[Row]:
        """Let the body read rows of stacks where it reads forward values."""
        rows = [Row(value, stack) for value, stack in self.stacks.items()]
        rows += [
            Row(value, self.stacks[carry.input], last=carry.result)
            for value, carry in self.following.items()
        ]
        rows += [Row(s.row, s.stack, s.axis, not s.reverse) for s in self.view.scan_inputs]
        users = set(walk(self.graph))
        trip = self.view.trip
        if trip is not None and any(use.node in users for use in trip.uses()):
            rows.append(Row(trip, op.arange(self.count)))
        for row in rows:
            value = self.body.like(row.value, "row")
            replace_uses(row.value, value, users)
            row.value = value
        return self.body.rows + rows

    def _copy_forward_nodes(self, op: GradientBuilder) -> None:
        """Copy what is computed again: once if it is the same in every trip, else into the body."""
        replaced: ValueMap = dict(self.sized)
        outside = [copy_node(node, replaced, self.op.names) for node in self.frames.outside]
        for value in self.sized:
            del replaced[value]
        again = [copy for node in self.frames.again for copy in run_again(self.op, node, replaced)]
        users = set(walk(self.graph))
        op.graph.extend(outside)
        put_first(self.graph, again)
        for old, new in replaced.items():
            replace_uses(old, new, users)

    def _unpad(self) -> None:
        """Let the body make values out of rows in which they were filled up."""
        users, inside = set(walk(self.graph)), self.op.inside("unpad")
        found: ValueMap = {}
        for each in reversed(self.padded):
            found[each.value] = unpad(inside, each, found.get(each.shape, each.shape))
        for sequence in self.packed:
            found[sequence.value] = unpack(inside, *(found[part] for part in sequence.parts))
        put_first(self.graph, taken_out(inside.graph))
        for old, new in found.items():
            replace_uses(old, new, users)


def _finish(op: GradientBuilder, product: Product, stacks: dict[ir.Value, ir.Value]) -> ir.Value:
    return product.finish(op, [stacks[factor] for factor in product.factors])

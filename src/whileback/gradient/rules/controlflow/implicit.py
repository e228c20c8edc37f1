"""The gradient of a loop that iterates to a solution: the implicit function theorem, no tape.

A loop that makes z ← f(z, u) until nothing changes ends at z* = f(z*, u), whatever way it took.
For a cotangent v of z*, or a tangent t of u, with everything at z*,

    w = v + (∂f/∂z)ᵀ·w,    du = (∂f/∂u)ᵀ·w,    s = (∂f/∂u)·t + (∂f/∂z)·s.

The equation for w, or for the tangent s of z*, is solved as the model solves its own: by a loop,
which ends at a solution, too, so that it is marked as the forward loop is, and derivatives of any
order are had in this way. Both keep the mark in files.

Source: Krantz and Parks, "The Implicit Function Theorem" (2013), chapter 3; for networks, Bai,
Kolter and Koltun, "Deep Equilibrium Models" (2019).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import reduce

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.activity import dependents
from whileback.gradient.backward import Cotangents, GradientBuilder, backward
from whileback.gradient.rules.controlflow.trips import count_trips, is_true, may_make_no_trip
from whileback.gradient.rules.controlflow.variation import shape_varies
from whileback.graph.constants import known_ints
from whileback.graph.copying import ValueMap, copy_node
from whileback.graph.origin import ORIGIN, source
from whileback.graph.randomness import draws
from whileback.graph.scopes import (
    Carry,
    LoopView,
    behind_identity,
    captures,
    definitions,
    operands,
    subgraphs,
    walk_graphs,
)
from whileback.graph.shapes import HALVES, describe

__all__ = ["Body", "ImplicitLoop", "Mark", "Solution", "mark_of", "set_mark"]

# Where a loop's node has its mark, among its metadata.
KEY = "whileback.implicit"

Emit = Callable[[GradientBuilder], Sequence[ir.Value]]


@dataclass(frozen=True)
class Mark:
    """Which of the carried values of a loop is iterated, and how the equation for w is solved."""

    carry: int
    tolerance: float
    trips: int


def set_mark(node: ir.Node, mark: Mark) -> None:
    """Mark a loop as an iteration to a solution."""
    node.metadata_props[KEY] = json.dumps(asdict(mark))


def mark_of(node: ir.Node) -> Mark | None:
    """Return the mark of a loop, if it has one."""
    text = node.metadata_props.get(KEY)
    return None if text is None else Mark(**json.loads(text))


class Solution:
    """A marked loop whose `results` are differentiated.

    Of the other carried values, those that no trip changes count as captured values. A result that
    is differentiated itself is what the body computes of the solution.
    """

    def __init__(self, op: GradientBuilder, view: LoopView, results: Container[ir.Value]) -> None:
        mark = mark_of(view.node)
        assert mark is not None
        self.op = op
        self.view = view
        self.mark = mark
        self.solved = view.carries[mark.carry]
        self.fixed = [carry for carry in view.carries if _is_fixed(carry)]
        self.results = [carry for carry in view.carries if carry.result in results]
        self.others = [carry for carry in self.results if carry is not self.solved]
        self.nodes = _needed(view, [self.solved, *self.others])
        self.read = {value for node in self.nodes for value in operands(node)}
        _refuse(self, [scan.stack for scan in view.scan_outputs if scan.stack in results])
        self.captured = [u for u in captures(view.body) if u in op.active and u in self.read]
        self.runs = self._runs()

    def _runs(self) -> ir.Value | None:
        """Return whether the loop makes a trip, which is known before it runs; None if always."""
        op, view = self.op, self.view
        if view.scan_inputs:
            scan = view.scan_inputs[0]
            return op.Greater(op.dim(scan.stack, scan.axis), 0) if may_make_no_trip(view) else None
        conditions = []
        if view.limit is not None and (known_ints(view.limit) or [0])[0] <= 0:
            conditions.append(op.Greater(view.limit, 0))
        if view.start is not None and not is_true(view.start):
            conditions.append(view.start)
        return reduce(op.And, conditions) if conditions else None

    def at_solution_or_not(self, run: Emit, rest: Emit) -> Sequence[ir.Value]:
        """Emit what is to be computed if a trip is made, or if none is; note the residual.

        Both emit results, and the residual as the last of them.
        """
        if self.runs is None:
            results: Sequence[ir.Value] = run(self.op)
        else:
            results = self.op.either(self.runs, run, rest)
        self.op.residuals[str(self.view.node.name)] = results[-1]
        return results[:-1]

    def no_residual(self, op: GradientBuilder) -> ir.Value:
        """Return the residual where there is no equation to solve."""
        dtype = self.solved.result.dtype
        known = ir.DataType.FLOAT if dtype is None or dtype in HALVES else dtype
        return op.constant(0, known)

    def solve(
        self,
        op: GradientBuilder,
        v: ir.Value,
        multiply: Callable[[GradientBuilder, ir.Value], ir.Value | None],
    ) -> Sequence[ir.Value]:
        """Emit the loop w ← v + A·w; return w, and the last change relative to v.

        A is linear: (∂f/∂z)ᵀ for cotangents, ∂f/∂z for tangents.
        """
        size = _norm(op, v)
        scale = op.Where(op.Greater(size, 0.0), size, 1.0)
        inside = op.inside(f"{self.view.node.name}/implicit")
        inside.in_loop = True
        w = _input(op, "w", v.type, v.shape)
        change = _input(op, "change", size.type, size.shape)
        trip = op.new_scalar("trip", ir.DataType.INT64)
        proceed = op.new_scalar("proceed", ir.DataType.BOOL)
        product = multiply(inside, w)
        after = v if product is None else inside.Add(v, product)
        moved = inside.Div(_norm(inside, inside.Sub(after, w)), scale)
        goes_on = inside.Greater(moved, self.mark.tolerance)
        inside.graph.inputs.extend([trip, proceed, w, change])
        inside.graph.outputs.extend(inside.own([goes_on, after, moved]))
        starts = [self.mark.trips, None, v, op.constant(0, size.dtype)]
        results = op.emit("Loop", starts, {"body": inside.graph}, outputs=2)
        node = results[0].producer()
        assert node is not None
        set_mark(node, Mark(0, self.mark.tolerance, self.mark.trips))
        return results


class ImplicitLoop(Solution):
    """The vjp of a marked loop; `wanted` tells whose gradients `emit` gives."""

    def __init__(self, op: GradientBuilder, view: LoopView, received: Cotangents) -> None:
        super().__init__(op, view, received)
        self.received = received
        handed_on = [] if self.runs is None else self.results
        carries = dict.fromkeys([*self.fixed, *handed_on])
        self.carries = [carry for carry in carries if carry.input in op.active]

    @property
    def wanted(self) -> list[ir.Value]:
        """Whose gradients are emitted: values of the forward body, and captured ones."""
        return [*(carry.input for carry in self.carries), *self.captured]

    def emit(self) -> Sequence[ir.Value]:
        """Emit the gradients of what is wanted: at the solution, if a trip is made at all."""
        return self.at_solution_or_not(self._at_solution, self._no_trips)

    def _no_trips(self, op: GradientBuilder) -> list[ir.Value]:
        """Hand cotangents on to the initial values."""
        handed_on = [self.received.get(carry.result) for carry in self.carries]
        wanted = [*(carry.initial for carry in self.carries), *self.captured]
        given = [*handed_on, *(None for _ in self.captured)]
        return [*_or_zeros(op, given, wanted), self.no_residual(op)]

    def _at_solution(self, op: GradientBuilder) -> list[ir.Value]:
        """Emit the body once, at the solution, solve for w, and emit (∂f/∂u)ᵀ·w."""
        body = Body(op, self)
        received = {carry: self.received[carry.result] for carry in self.others}
        own = body.vjp(op, received, [body.z]).get(body.z)
        v = op.add(self.received.get(self.solved.result), own)
        residual = self.no_residual(op)
        if v is not None:
            received[self.solved], residual = self.solve(
                op, v, lambda inside, w: body.vjp(inside, {self.solved: w}, [body.z]).get(body.z)
            )
        found = body.vjp(op, received, body.given.values())
        wanted = [*(carry.initial for carry in self.carries), *self.captured]
        places = [body.given.get(value) for value in self.wanted]
        given = [None if place is None else found.get(place) for place in places]
        return [*_or_zeros(op, given, wanted), residual]


class Body:
    """The body of a loop, once, where nothing changes any more."""

    def __init__(self, op: GradientBuilder, loop: Solution) -> None:
        """Emit it; `given` are the places of what it reads and has a gradient, `z` that of z*."""
        self.z = op.Identity(loop.solved.result)
        replaced: ValueMap = {carry.input: carry.initial for carry in loop.fixed}
        active = [carry.input for carry in loop.fixed if carry.input in op.active]
        self.given = {u: op.Identity(replaced.get(u, u)) for u in (*active, *loop.captured)}
        replaced |= {**self.given, loop.solved.input: self.z}
        trip = loop.view.trip
        if trip is not None:
            replaced[loop.view.body.inputs[1]] = op.constant(True)
        if trip is not None and trip in loop.read:
            replaced[trip] = op.Squeeze(op.Sub(count_trips(op, loop.view), 1), [0])
        self.nodes = [copy_node(node, replaced, op.names) for node in loop.nodes]
        for node, again in zip(loop.nodes, self.nodes, strict=True):
            again.metadata_props[ORIGIN] = source(node)
        op.graph.extend(self.nodes)
        same = zip(_values(loop.nodes), _values(self.nodes), strict=True)
        op.masked.update(again for value, again in same if value in op.masked)
        self.results = {
            carry: replaced.get(carry.output, carry.output) for carry in (loop.solved, *loop.others)
        }

    def vjp(
        self,
        op: GradientBuilder,
        received: dict[Carry, ir.Value],
        sources: Iterable[ir.Value],
    ) -> Cotangents:
        """Emit the vjp for cotangents of results; only what depends on the sources counts."""
        apart = copy(op)
        apart.active = dependents(self.nodes, sources)
        known: Cotangents = {}
        for carry, cotangent in received.items():
            value = self.results[carry]
            earlier = known.get(value)
            known[value] = cotangent if earlier is None else op.plus(earlier, cotangent)
        backward(apart, self.nodes, known)
        return known


def _is_fixed(carry: Carry) -> bool:
    return behind_identity(carry.output) is carry.input


def _needed(view: LoopView, carries: Iterable[Carry]) -> list[ir.Node]:
    """Return the nodes of the body on which these carried values depend after a trip."""
    found: set[ir.Node] = set()
    pending = [carry.output for carry in carries]
    while pending:
        node = pending.pop().producer()
        if node is not None and node.graph is view.body and node not in found:
            found.add(node)
            pending += filter(None, operands(node))
    return [node for node in view.body if node in found]


def _values(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield what nodes define, in every scope, in the same order for a copy."""
    for node in nodes:
        yield from node.outputs
        for graph in subgraphs(node):
            for each in walk_graphs(graph):
                yield from definitions(each)


def _or_zeros(
    op: GradientBuilder, gradients: Iterable[ir.Value | None], values: Iterable[ir.Value]
) -> list[ir.Value]:
    """Return zeros where there is no gradient."""
    pairs = zip(gradients, values, strict=True)
    return [op.zeros_like(value) if gradient is None else gradient for gradient, value in pairs]


def _norm(op: GradientBuilder, value: ir.Value) -> ir.Value:
    """Return Σ|x|, which is 0 for no elements, and squares nothing that might vanish then."""
    return op.ReduceL1(op.widened(value), keepdims=0)


def _input(
    op: GradientBuilder, name: str, type_: ir.TypeProtocol | None, shape: ir.Shape | None
) -> ir.Value:
    return ir.Value(name=op.names.fresh(name), type=type_, shape=shape)


def _refuse(loop: Solution, stacks: Sequence[ir.Value]) -> None:
    """Refuse what has no gradient at a solution.

    Raises:
        UnsupportedError: a stack is differentiated, or what is differentiated depends on what
            changes from trip to trip, in its shape or by a random draw.
    """
    view, solved = loop.view, loop.solved
    where = f"Loop '{view.node.name}' is an iteration of '{solved.input.name}' to a solution"
    if stacks:
        raise UnsupportedError(
            f"{where}, of which the way there is no part: its stack '{stacks[0].name}' has no "
            "gradient. Differentiate what it carries, or leave the loop out of implicit=."
        )
    frozen = [carry.input for carry in view.carries if carry not in (solved, *loop.fixed)]
    frozen += [scan.row for scan in view.scan_inputs]
    for carry in (solved, *loop.others):
        nodes = _needed(view, [carry])
        read = {carry.output, *(value for node in nodes for value in operands(node))}
        changing = [value.name for value in frozen if value in read]
        if changing:
            raise UnsupportedError(
                f"{where}, but '{carry.output.name}' depends on '{changing[0]}', which changes "
                "from trip to trip. Carry both as one tensor, or leave the loop out of implicit=."
            )
        for node in filter(draws, nodes):
            raise UnsupportedError(
                f"{where}, but node '{node.name}' ({node.op_type}) draws random numbers in every "
                "trip, so that there is none. Draw before the loop, or leave the loop out of "
                "implicit=."
            )
    _refuse_changing_shapes(view, [solved, *loop.others])


def _refuse_changing_shapes(view: LoopView, carries: list[Carry]) -> None:
    varying = shape_varies(view)
    for carry in carries:
        if carry.input in varying:
            raise UnsupportedError(
                f"Carried value '{carry.input.name}' of loop '{view.node.name}' changes its shape "
                f"from trip to trip ({describe(carry.initial)} to {describe(carry.output)}), so "
                "that there is no solution: leave the loop out of implicit=."
            )

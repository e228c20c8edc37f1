"""Tangents of a loop that iterates to a solution: the implicit function theorem, forward.

z* = f(z*, u) moves by s = (∂f/∂u)·t + (∂f/∂z)·s where u moves by t, whatever way was taken to z*.
What its vjp takes is in `rules/controlflow/implicit.py`, and so is the source.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping

import onnx_ir as ir

from whileback.gradient.activity import dependents
from whileback.gradient.builder import GradientBuilder
from whileback.gradient.rules.controlflow.implicit import Body, Solution
from whileback.graph.moving import taken_out
from whileback.graph.scopes import Carry, LoopView

__all__ = ["ImplicitTangents"]

Tangents = ChainMap[ir.Value, ir.Value]
# Goes over nodes with tangents of what they read, and adds those of what they compute.
Push = Callable[[GradientBuilder, Iterable[ir.Node], Tangents], None]


class ImplicitTangents(Solution):
    """The tangents of what a marked loop leaves, which itself stays as it is."""

    def __init__(self, op: GradientBuilder, view: LoopView, tangents: Tangents, push: Push) -> None:
        super().__init__(op, view, op.active)
        self.tangents = tangents
        self.push = push

    def emit(self) -> dict[ir.Value, ir.Value]:
        """Emit the tangents of results: at the solution, if a trip is made at all."""
        found = self.at_solution_or_not(self._at_solution, self._no_trips)
        return dict(zip((carry.result for carry in self.results), found, strict=True))

    def _no_trips(self, op: GradientBuilder) -> list[ir.Value]:
        starts = [carry.initial for carry in self.results]
        found = [self.tangents.get(v) or op.zeros_like(v) for v in starts]
        return [*found, self.no_residual(op)]

    def _at_solution(self, op: GradientBuilder) -> list[ir.Value]:
        """Emit the body once, at the solution, and solve for the tangent of that."""
        body = Body(op, self)
        outside = {carry.input: carry.initial for carry in self.fixed}
        moved = {
            place: self.tangents[outside.get(value, value)]
            for value, place in body.given.items()
            if outside.get(value, value) in self.tangents
        }
        found = self._pushed(op, body, moved)
        residual = self.no_residual(op)
        start = found.get(self.solved)
        if start is not None:
            solved, residual = self.solve(
                op,
                start,
                lambda inside, s: self._pushed(inside, body, {body.z: s}).get(self.solved),
            )
            found = self._pushed(op, body, moved | {body.z: solved}) if self.others else {}
            found[self.solved] = solved
        results = [found.get(c) or op.zeros_like(c.result) for c in self.results]
        return [*results, residual]

    def _pushed(
        self, op: GradientBuilder, body: Body, moved: Mapping[ir.Value, ir.Value]
    ) -> dict[Carry, ir.Value]:
        """Emit the tangents of what the body computes, where what it reads moves."""
        apart = op.inside("pushed")  # so that loops in the body stay, and copies are pushed
        apart.active = dependents(body.nodes, moved)
        known = ChainMap(dict(moved))
        self.push(apart, body.nodes, known)
        op.graph.extend(taken_out(apart.graph))
        return {carry: known[v] for carry, v in body.results.items() if v in known}

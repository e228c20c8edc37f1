"""The gradient of While: a While that pops the frame of each trip, the last one first."""

from __future__ import annotations

from whileback.caffe2.gradients.backward import Backward, Session, control_gradients
from whileback.caffe2.gradients.branches import flow, zeros_of_first
from whileback.caffe2.gradients.emission import copy_to, deliver, gradient_do, zeros_to
from whileback.caffe2.gradients.regions import Control, Frame
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__: list[str] = []

Names = dict[str, str]


def while_gradient(back: Backward, node: Control, dys: Names) -> Names:
    """Carry a cell for the gradient of each blob back through the trips.

    The cell of a blob that the loop writes starts as the gradient of what it leaves there, that of
    a blob which it only reads starts as zeros, and each trip adds its share. The condition net ran
    once more than the body, so that it goes first, and then after each trip.
    """
    session = back.session
    states = _states(session, node, frozenset(dys))
    found = [b for b in states if b in node.entry and node.entry[b].active]
    if back.dry or not found:
        return dict.fromkeys(found, "-") if back.dry else {}
    cells = {blob: back.fresh(f"{blob}_grad") for blob in states}
    back.ops += [copy_to(dy, cells[blob]) for blob, dy in dys.items()]
    after = node.entry | node.exit
    back.ops += [zeros_to(after[blob], cells[blob]) for blob in states if blob not in dys]
    trip = [_step(session, node.frames["loop_net"], cells)]
    condition = node.frames.get("cond_net")
    if condition is not None and not condition.written().keys().isdisjoint(cells):
        step = _step(session, condition, cells)
        back.ops.append(step)
        trip.append(step)
    back.ops += _loop(back, node.frames["loop_net"], trip, list(cells.values()))
    return {blob: cells[blob] for blob in found}


def _states(session: Session, node: Control, seeded: frozenset[str]) -> list[str]:
    """Return the blobs whose gradient is not zero somewhere in the loop."""
    key, states = (node, seeded), seeded
    if key not in session.flows:
        before: frozenset[str] = frozenset()
        while states != before:
            before = states
            for frame in node.frames.values():
                states |= flow(session, frame, states)
        session.flows[key] = states
    return [b for b in dict.fromkeys([*node.exit, *node.entry]) if b in session.flows[key]]


def _step(session: Session, frame: Frame, cells: Names) -> OperatorDef:
    """Return the operator that takes the cells back through one run of the body or condition.

    All new gradients are computed before any cell that another one may still need is overwritten.
    """
    back = Backward(session, frame)
    bound = {inner: cells[outer] for inner, outer in frame.outer.items() if outer in cells}
    for inner, cell in bound.items():
        if frame.is_written(inner):
            back.add(frame.last(inner), cell)
    back.run()
    new: Names = {}
    for inner, cell in bound.items():
        if frame.is_written(inner):
            total = back.totals.get(frame.first(inner))
            if total is None:
                new[cell] = zeros_of_first(back, frame, inner)
            else:
                new[cell] = back.dense(frame.first(inner), total)
    moves = {cell: dy for cell, dy in new.items() if dy != cell}
    saved = {dy: back.emit("Copy", [dy], "saved_grad") for dy in moves.values() if dy in new}
    added = {bound[inner]: frame.first(inner) for inner in bound if not frame.is_written(inner)}
    added = {cell: value for cell, value in added.items() if value in back.totals}
    for cell, value in added.items():
        back.accumulate(cell, back.totals[value])
    deliver(back.ops, {cell: saved.get(dy, dy) for cell, dy in moves.items()})
    return gradient_do(session, frame, back.ops, [*moves, *added])


def _loop(
    back: Backward, body: Frame, trip: list[OperatorDef], cells: list[str]
) -> list[OperatorDef]:
    """Return the loop that runs as long as there are frames of the body."""
    left = back.fresh(f"{body.scope}_left")
    has = OperatorDef(type="HasScope", input=[body.scope], output=[left])
    op = OperatorDef(type="While", input=[left], output=cells)
    fresh = back.session.net_names.fresh
    add_argument(op, "loop_net", NetDef(name=fresh(f"{body.name}_trip_grad"), op=trip))
    add_argument(op, "cond_net", NetDef(name=fresh(f"{body.name}_left_grad"), op=[has]))
    return [has, op]


control_gradients["While"] = while_gradient

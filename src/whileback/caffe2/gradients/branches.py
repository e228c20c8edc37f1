"""The gradients of Do and If."""

from __future__ import annotations

from whileback.caffe2.gradients.backward import Backward, Session, control_gradients
from whileback.caffe2.gradients.emission import copy_to, deliver, gradient_do, zeros_to
from whileback.caffe2.gradients.regions import Control, Frame
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["flow", "zeros_of_first"]

Names = dict[str, str]


def frame_gradient(
    session: Session, frame: Frame, dys: Names, dry: bool = False
) -> tuple[Backward, Names]:
    """Differentiate the net in a frame.

    Args:
        session: what all regions share.
        frame: the frame.
        dys: the gradients of what the net leaves in the blobs around it, by outer blob.
        dry: whether to emit nothing.

    Returns: the operators, and the gradients of what the net finds in the blobs around it. Those
    of blobs that it does not change are as they were given.
    """
    back = Backward(session, frame, dry)
    for inner, outer in frame.outer.items():
        back.add(frame.last(inner), dys.get(outer))
    back.run()
    found = {outer: dy for outer, dy in dys.items() if outer not in frame.inner}
    for inner, outer in frame.outer.items():
        first = frame.first(inner)
        if first in back.totals:
            found[outer] = back.dense(first, back.totals[first])
    return back, found


def entered(session: Session, node: Control, seeded: frozenset[str]) -> frozenset[str]:
    """Return the blobs whose versions before a Do or an If get a gradient.

    Args:
        session: where the answer is noted down.
        node: the Do or the If.
        seeded: the blobs whose versions after it have one.
    """
    key = (node, seeded)
    if key not in session.flows:
        frames = list(node.frames.values())
        # Without an else_net the gradients stay as they are where the condition is false.
        found = set(seeded) if node.op.type == "If" and len(frames) == 1 else set()
        for frame in frames:
            found |= flow(session, frame, seeded)
        session.flows[key] = frozenset(b for b in found if b in node.entry and node.entry[b].active)
    return session.flows[key]


def flow(session: Session, frame: Frame, seeded: frozenset[str]) -> frozenset[str]:
    """Return the outer blobs that get a gradient from a frame, emitting nothing."""
    return frozenset(frame_gradient(session, frame, dict.fromkeys(seeded, "-"), dry=True)[1])


def do_gradient(back: Backward, node: Control, dys: Names) -> Names:
    """Run the gradient of the net in what the Do left behind."""
    if back.dry:
        return dict.fromkeys(entered(back.session, node, frozenset(dys)), "-")
    frame = node.frames["net"]
    inner, found = frame_gradient(back.session, frame, dys)
    found = {blob: dy for blob, dy in found.items() if blob in node.entry}
    results = [dy for dy in dict.fromkeys(found.values()) if dy not in dys.values()]
    if results:
        back.ops.append(gradient_do(back.session, frame, inner.ops, results))
    return found


def if_gradient(back: Backward, node: Control, dys: Names) -> Names:
    """Run the gradient of the branch that ran; what it leaves alone gets zeros or keeps its dY."""
    if back.dry:
        return dict.fromkeys(entered(back.session, node, frozenset(dys)), "-")
    branches = {name: _Branch(back, node, name, dys) for name in ("then_net", "else_net")}
    each = [branch.found for branch in branches.values()]
    wanted = [b for b, value in node.entry.items() if value.active and any(b in f for f in each)]
    passed = {b: dys[b] for b in wanted if all(found.get(b) == dys.get(b) for found in each)}
    results = {b: back.fresh(f"{b}_grad") for b in wanted if b not in passed}
    if results:
        assert node.condition is not None
        op = OperatorDef(type="If", input=[node.condition.name])
        op.output.extend(results.values())
        for name, branch in branches.items():
            add_argument(op, name, branch.net(results))
        back.ops.append(op)
    return passed | results


class _Branch:
    """The gradient of one branch of an If, which may not be there."""

    def __init__(self, back: Backward, node: Control, name: str, dys: Names) -> None:
        self.session, self.node, self.name, self.dys = back.session, node, name, dys
        self.frame = node.frames.get(name)
        self.found = dys
        if self.frame is not None:
            self.inner, self.found = frame_gradient(back.session, self.frame, dys)

    def net(self, results: Names) -> NetDef:
        """Return the net: a Do for what the branch computed, and fills for the rest."""
        base = self.name if self.frame is None else f"{self.frame.name}_{self.name}"
        net = NetDef(name=self.session.net_names.fresh(f"{base}_grad"))
        computed: Names = {}
        for blob, result in results.items():
            dy = self.found.get(blob)
            if dy is not None and dy in self.dys.values():
                net.op.append(copy_to(dy, result))
            elif dy is not None:
                computed[result] = dy
            elif self.frame is not None and blob in self.frame.written():
                computed[result] = zeros_of_first(self.inner, self.frame, self.frame.inner[blob])
            else:
                # This branch leaves the blob as it was, whatever the other one does.
                node = self.node
                net.op.append(zeros_to(node.exit.get(blob, node.entry[blob]), result))
        if computed and self.frame is not None:
            deliver(self.inner.ops, computed)
            net.op.insert(0, gradient_do(self.session, self.frame, self.inner.ops, list(computed)))
        return net


def zeros_of_first(back: Backward, frame: Frame, inner: str) -> str:
    """Emit zeros for the first version of a blob in a frame, which nothing needs.

    A blob that may not have been there before is taken to keep its shape.
    """
    first = frame.first(inner)
    return back.zeros(first if first.certain else frame.last(inner))


control_gradients["Do"] = control_gradients["ONNXWhile"] = do_gradient
control_gradients["If"] = if_gradient

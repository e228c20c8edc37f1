"""The gradients of Do and If."""

from __future__ import annotations

from whileback.caffe2.gradients.backward import Backward, Session, control_gradients
from whileback.caffe2.gradients.emission import copy_to, deliver, gradient_do, zeros_to
from whileback.caffe2.gradients.regions import Control, Frame
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["entered", "flow", "frame_gradient"]

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
        found = set() if node.op.type == "Do" or len(frames) == 2 else set(seeded)
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
    branches = {
        name: frame_gradient(back.session, node.frames[name], dys) if name in node.frames else None
        for name in ("then_net", "else_net")
    }
    each = [dys if branch is None else branch[1] for branch in branches.values()]
    wanted = [b for b in node.entry if any(b in found for found in each)]
    passed = {b: dys[b] for b in wanted if all(found.get(b) == dys.get(b) for found in each)}
    results = {
        b: back.fresh(f"{b}_grad") for b in wanted if b not in passed and node.entry[b].active
    }
    if results and node.condition is not None:
        op = OperatorDef(type="If", input=[node.condition.name], is_gradient_op=True)
        op.output.extend(results.values())
        for (name, branch), found in zip(branches.items(), each, strict=True):
            net = _branch(back, node, name, branch and branch[0], found, dys, results)
            add_argument(op, name, net)
        back.ops.append(op)
    return passed | results


def _branch(
    back: Backward,
    node: Control,
    name: str,
    inner: Backward | None,
    found: Names,
    dys: Names,
    results: Names,
) -> NetDef:
    """Return the gradient of a branch: a Do for what it computed, and fills for the rest."""
    frame = node.frames.get(name)
    base = f"{name}_grad" if frame is None else f"{frame.name}_{name}_grad"
    net = NetDef(name=back.session.net_names.fresh(base))
    computed: Names = {}
    for blob, result in results.items():
        dy = found.get(blob)
        if dy is None:
            entry = node.entry[blob]
            net.op.append(zeros_to(entry if entry.certain else node.exit[blob], result))
        elif dy in dys.values():
            net.op.append(copy_to(dy, result))
        else:
            computed[result] = dy
    if computed and frame is not None and inner is not None:
        deliver(inner.ops, computed)
        net.op.insert(0, gradient_do(back.session, frame, inner.ops, list(computed)))
    return net


control_gradients["Do"] = do_gradient
control_gradients["If"] = if_gradient

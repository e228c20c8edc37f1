"""The forward net with what its gradient needs: a frame for all that it reads, and copies."""

from __future__ import annotations

from whileback.caffe2.gradients.bindings import bind, bindings, scope_of
from whileback.caffe2.gradients.finishing import Finisher, free
from whileback.caffe2.gradients.regions import Control, Frame, Node, Region
from whileback.errors import UnsupportedError
from whileback.formats.caffe2.arguments import Arguments, add_argument, label, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Rewriter", "complete"]


class Rewriter:
    """Rebuilds forward operators; `notes` tell what is new and why, a sentence each."""

    def __init__(self, finisher: Finisher) -> None:
        self._visited = finisher.visited
        self._copies = finisher.keeper.copies
        self.notes: list[str] = []

    def rewrite(self, region: Region) -> list[OperatorDef]:
        """Return a region's operators."""
        copies: dict[Node | None, list[OperatorDef]] = {}
        for value, name in self._copies.items():
            if value.region is region:
                copy = OperatorDef(type="Copy", input=[value.blob], output=[name])
                copies.setdefault(value.producer, []).append(copy)
                self._note_copy(value.blob, name, value.producer, region)
        ops = copies.get(None, [])
        for node in region.nodes:
            ops += self._control(node) if isinstance(node, Control) else [node.op]
            ops += copies.get(node, [])
        return ops

    def _control(self, node: Control) -> list[OperatorDef]:
        """Return a control operator, after the scopes that are made for it."""
        op = OperatorDef()
        op.CopyFrom(node.op)
        frames = {name: frame for name, frame in node.frames.items() if frame in self._visited}
        for name, frame in frames.items():
            do = self._do(frame)
            if node.op.type in ("If", "While"):
                _put(op, name, do, frame.do)
            else:
                op = do
        scopes = [frame.scope for frame in frames.values() if frame.own_scope]
        return [*(OperatorDef(type="CreateScope", output=[scope]) for scope in scopes), op]

    def _do(self, frame: Frame) -> OperatorDef:
        """Return the Do that leaves a frame behind for the gradient."""
        self._check_scope(frame)
        self._note_frame(frame)
        net = NetDef()
        net.CopyFrom(frame.net)
        net.name = frame.name
        del net.op[:]
        net.op.extend(self.rewrite(frame))
        complete(net)
        op = OperatorDef(type="Do", input=[frame.scope], output=[frame.scope])
        if frame.do is None:
            add_argument(op, "net", net)
        else:
            op.CopyFrom(frame.do)
            op.input[-1] = op.output[-1] = frame.scope
        if frame.do is None or bindings(frame.do) != frame.outer:
            written = {inner for inner in frame.outer if frame.is_written(inner)} | frame.shared
            bind(op, frame.outer, frame.named.keys() - frame.shared, written)
        lost = ("copy_external_blobs", "reuse_workspace")
        kept = [arg for arg in op.arg if arg.name not in lost]
        del op.arg[:]
        op.arg.extend(kept)
        next(arg for arg in op.arg if arg.name == "net").n.CopyFrom(net)
        return op

    def _check_scope(self, frame: Frame) -> None:
        """Refuse to take the workspaces of a Do away from a HasScope that asks for them."""
        if frame.own_scope and frame.asked and frame.do is not None:
            raise UnsupportedError(
                f"{label(frame.do)} needs a scope of its own, so that its gradient finds its "
                f"workspaces, but a HasScope of the net reads '{scope_of(frame.do)}'. Make the "
                "scope right before the operator, in the same net, and use it for nothing else."
            )

    def _note_copy(self, blob: str, name: str, producer: Node | None, region: Region) -> None:
        where = f"at the start of net '{region.name}'"
        if producer is not None:
            where = f"after {label(producer.op)}"
        self.notes.append(
            f"Blob '{blob}' is copied to '{name}' {where}, since the gradient reads it when it has "
            "been overwritten."
        )

    def _note_frame(self, frame: Frame) -> None:
        owner = frame.owner.op
        if owner.type == "ONNXWhile":
            self.notes.append(
                f"{label(owner)} becomes a While with a Do, which leaves the blobs of each trip to "
                "the gradient."
            )
            return
        if frame.do is None:
            self.notes.append(
                f"The operators of net '{frame.net.name}' are put in a Do of their own, on scope "
                f"'{frame.scope}', which leaves its blobs to the gradient."
            )
            return
        name, args = label(frame.do), Arguments(frame.do)
        if frame.own_scope:
            self.notes.append(
                f"{name} gets the scope '{frame.scope}' for itself, so that the gradient finds its "
                "workspaces there."
            )
        if args.bool("copy_external_blobs", False):
            self.notes.append(
                f"{name} loses 'copy_external_blobs', which keeps what blobs hold after the "
                "operator and makes a second run of the gradient fail."
            )
        if args.bool("reuse_workspace", False):
            self.notes.append(
                f"{name} loses 'reuse_workspace', since the gradient needs a workspace of each "
                "run. What one run leaves to the next is kept outside."
            )


def _put(op: OperatorDef, name: str, do: OperatorDef, before: OperatorDef | None) -> None:
    """Put a Do in the place of all operators of a net of an If or a While, or of the one Do there.

    The operator's own lists get what is new.
    """
    net = next(net for each, net in subnets(op) if each == name)
    del net.op[:]
    net.op.append(do)
    complete(net)
    known = {*net.external_input, *do.output}
    net.external_output[:] = [blob for blob in net.external_output if blob in known]
    read, written = (before.input, before.output) if before is not None else ((), ())
    op.input.extend(blob for blob in do.input if blob not in {*op.input, *read})
    op.output.extend(blob for blob in do.output if blob not in {*op.output, *written})


def complete(net: NetDef) -> None:
    """Let a net that lists its inputs list all of them."""
    if net.external_input:
        listed = set(net.external_input)
        net.external_input.extend(name for name in free(net) if name not in listed)

"""Gives gradient operators the names of real blobs, and gradient Dos their bindings."""

from __future__ import annotations

from collections.abc import Iterable

from whileback.caffe2.gradients.backward import Session
from whileback.caffe2.gradients.bindings import bind
from whileback.caffe2.gradients.keeping import Keeper
from whileback.caffe2.gradients.naming import rename
from whileback.caffe2.gradients.regions import Frame, Region
from whileback.formats.caffe2.arguments import subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Finisher", "free"]


class Finisher:
    """Finishes the gradient operators of a main net and of the frames inside.

    Afterwards `visited` has the frames that gradient operators read, and the keeper's `copies` the
    values that the forward operators must keep for them.
    """

    def __init__(self, session: Session, region: Region) -> None:
        self.keeper = Keeper(session.fresh)
        self.visited: set[Frame] = set()
        self._session = session
        self._regions = list(region.all_regions)
        self._values = {value.name: value for each in self._regions for value in each.values}

    def name(self, name: str) -> str:
        """Return the blob that holds a value, or the name itself if it stands for none."""
        value = self._values.get(name)
        return name if value is None else self.keeper.keep(value)

    def finish(self, ops: Iterable[OperatorDef]) -> None:
        """Finish operators of one workspace, in place."""
        for op in ops:
            op.is_gradient_op = True
            if op.type == "Do":
                self._pop(op)
            elif op.type in ("If", "While"):
                op.input[:] = [self.name(name) for name in op.input]
                self._enclose(op)
            else:
                rename([op], {name: self.name(name) for name in op.input})

    def _enclose(self, op: OperatorDef) -> None:
        """Finish the nets of an If or a While, and name what they read and write."""
        read, written = dict.fromkeys(op.input), dict.fromkeys(op.output)
        for _, net in subnets(op):
            self.finish(net.op)
            read |= free(net)
            written |= dict.fromkeys(name for inner in net.op for name in inner.output)
        op.input[:] = read
        op.output[:] = written

    def _pop(self, op: OperatorDef) -> None:
        """Finish the net of a gradient Do, and bind what it does not find in its frame."""
        net = next(net for _, net in subnets(op))
        frame = self._session.frames[net.name]
        self._visit(frame)
        self.finish(net.op)
        read, results = free(net), dict.fromkeys(op.output[:-1])
        imported = {inner: name for name, inner in self.keeper.imports.get(frame, {}).items()}
        known, local = frame.outer | imported, self._local(frame)
        outer = {name: known.get(name, name) for name in (*read, *results) if name not in local}
        bind(op, outer, read.keys(), results.keys())

    def _local(self, frame: Frame) -> set[str]:
        """Return the blobs that a run of the frame leaves behind."""
        own = {blob for blob in frame.versions if blob not in frame.outer}
        copies = {name for value, name in self.keeper.copies.items() if value.region is frame}
        return own | copies | {inner.scope for inner in frame.frames}

    def _visit(self, frame: Frame) -> None:
        """Note that a frame is read, and so are those around it, and those it shares blobs with."""
        if frame in self.visited:
            return
        self.visited.add(frame)
        related = [frame.parent, *(self._regions if frame.shared else ())]
        for each in related:
            if isinstance(each, Frame) and (each is frame.parent or each.shared):
                self._visit(each)


def free(net: NetDef) -> dict[str, None]:
    """Return the blobs that operators of a net read and that none before them wrote."""
    read: dict[str, None] = {}
    written: set[str] = set()
    for op in net.op:
        read |= dict.fromkeys(name for name in op.input if name not in written)
        written.update(op.output)
    return read

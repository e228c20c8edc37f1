"""Which values a gradient can exist for and is of use: float ones that depend on what is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from whileback.caffe2.gradients.regions import Control, Frame, Node, Region, Value
from whileback.caffe2.gradients.types import may_be_float, result_types

__all__ = ["mark"]


@dataclass(frozen=True)
class Trait:
    """What is known of a value: its type, whether it depends on an input, and surely is there."""

    dtype: int | None = None
    depends: bool = False
    certain: bool = False

    def joined(self, other: Trait | None) -> Trait:
        """Return what holds of a value that is either of two."""
        if other is None:
            return self
        dtype = self.dtype if self.dtype == other.dtype else None
        return Trait(dtype, self.depends or other.depends, self.certain and other.certain)


Traits = dict[str, Trait]


class _Marker:
    """Marks the values of regions, a frame only anew if more is known of what it reads."""

    def __init__(self, wanted: set[Value] | None) -> None:
        self.wanted = wanted
        self._marked: dict[Region, Traits] = {}

    def region(self, region: Region, entry: Traits) -> None:
        if self._marked.get(region) == entry:
            return
        self._marked[region] = entry
        for blob, versions in region.versions.items():
            trait = entry.get(blob, Trait())
            self._set(versions[0], replace(trait, certain=trait.certain or blob in region.named))
        for node in region.nodes:
            if isinstance(node, Control):
                self._control(node)
            else:
                self._plain(node)

    def _set(self, value: Value, trait: Trait) -> None:
        wanted = self.wanted is None or value in self.wanted
        value.dtype, value.certain = trait.dtype, trait.certain
        value.active = may_be_float(trait.dtype) and (wanted or trait.depends)

    def _plain(self, node: Node) -> None:
        dtypes = result_types(node.op, [value.dtype for value in node.inputs])
        depends = any(value.active for value in node.inputs)
        for value, dtype in zip(node.outputs, dtypes, strict=True):
            self._set(value, Trait(dtype, depends, certain=True))

    def _control(self, node: Control) -> None:
        entry = {blob: _trait(value) for blob, value in node.entry.items()}
        exits = self._loop(node, entry) if node.op.type == "While" else self._once(node, entry)
        for blob, value in node.exit.items():
            certain = value.sure or (blob in entry and entry[blob].certain)
            self._set(value, replace(exits[blob], certain=certain))

    def _once(self, node: Control, entry: Traits) -> Traits:
        """Mark the net of a Do, or the branches of an If."""
        # What a branch leaves as it was is among what the operator reads.
        found = {blob: entry[blob] for blob, value in node.exit.items() if not value.sure}
        for frame in node.frames.values():
            found = _joined(found, self._frame(frame, entry))
        return found

    def _loop(self, node: Control, state: Traits) -> Traits:
        """Mark the nets of a loop again and again until nothing is new."""
        while True:
            before = state
            for name in ("cond_net", "loop_net"):
                if name in node.frames:
                    state = _joined(state, self._frame(node.frames[name], state))
            if state == before:
                return state

    def _frame(self, frame: Frame, outside: Traits) -> Traits:
        """Mark a frame, and return what it leaves in the blobs around it."""
        names = frame.outer.items()
        self.region(frame, {inner: outside[name] for inner, name in names if name in outside})
        return {name: _trait(frame.last(inner)) for inner, name in names if frame.is_written(inner)}


def _trait(value: Value) -> Trait:
    return Trait(value.dtype, value.active, value.certain)


def _joined(some: Traits, others: Traits) -> Traits:
    return some | {name: trait.joined(some.get(name)) for name, trait in others.items()}


def mark(region: Region, given: set[str], wanted: set[Value] | None) -> None:
    """Mark the values of a main net.

    Args:
        region: the main net; its values and those of the frames inside are changed.
        given: the blobs that surely hold something before the net runs.
        wanted: the values whose gradients are wanted; None for all.
    """
    _Marker(wanted).region(region, {blob: Trait(certain=True) for blob in given})

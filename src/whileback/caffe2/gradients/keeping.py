"""Where the values that gradient operators read are found once the forward operators have run."""

from __future__ import annotations

from collections.abc import Callable

from whileback.caffe2.gradients.regions import Frame, Region, Value

__all__ = ["Keeper"]


class Keeper:
    """Finds blobs that still hold a value when the gradient runs; where none does, keeps a copy.

    A copy is made as soon as the value is there. Of a value that changes with the trips of a loop
    it lies in the frame that each trip leaves behind, as one that a branch overwrites; of one that
    is only overwritten later on, beside the loop or branch.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh = fresh
        # The names of copies, by what they are copies of.
        self.copies: dict[Value, str] = {}
        # Names inside frames that only the gradient uses, by the names outside.
        self.imports: dict[Frame, dict[str, str]] = {}
        self._equals: dict[Region, dict[Value, list[Value]]] = {}

    def keep(self, value: Value) -> str:
        """Return the name of a blob, in the value's workspace, that holds the value."""
        found = self._available(value)
        if found is not None:
            return found
        for equal in self._equal(value):
            outside = _unchanged(equal)
            if outside is not None:
                return self._import(equal, self.keep(outside))
        origin = value.copied
        self.copies[origin] = self._fresh(f"{origin.blob}_kept")
        return self.copies[origin]

    def _available(self, value: Value) -> str | None:
        """Return the name of a blob that holds the value without a new copy."""
        if value.copied in self.copies:
            return self.copies[value.copied]
        for equal in self._equal(value):
            if not equal.is_last:
                continue
            if not isinstance(equal.region, Frame) or equal.blob not in equal.region.outer:
                return equal.blob
            outside = _afterwards(equal)
            found = None if outside is None else self._available(outside)
            if found is not None:
                return self._import(equal, found)
        return None

    def _equal(self, value: Value) -> list[Value]:
        """Return the values of the region that are equal through copies."""
        region = value.region
        if region not in self._equals:
            self._equals[region] = {}
            for each in region.values:
                self._equals[region].setdefault(each.copied, []).append(each)
        return self._equals[region][value.copied]

    def _import(self, value: Value, outer: str) -> str:
        """Return the name that an outer blob has, or is to get, in the frame of a value."""
        frame = value.region
        assert isinstance(frame, Frame)
        inner = frame.inner.get(outer)
        if inner is not None:
            return inner
        known = self.imports.setdefault(frame, {})
        if outer not in known:
            known[outer] = self._fresh(outer)
        return known[outer]


def _unchanged(value: Value) -> Value | None:
    """Return what an outer blob that the loop or branch leaves alone holds, if the value is it."""
    frame = value.region
    if not isinstance(frame, Frame) or value.version or not value.is_last:
        return None
    outer = frame.outer.get(value.blob)
    return None if outer is None or outer in frame.owner.exit else frame.owner.entry.get(outer)


def _afterwards(value: Value) -> Value | None:
    """Return the value around its frame that a last value of a bound blob becomes.

    It is None in a loop that writes the blob, since a later trip may have overwritten it.
    """
    frame = value.region
    assert isinstance(frame, Frame)
    owner, outer = frame.owner, frame.outer[value.blob]
    if outer in owner.exit:
        return None if owner.op.type == "While" else owner.exit[outer]
    return owner.entry.get(outer)

"""Blobs and workspaces as they are known before a run: places and names, not what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from whileback.caffe2.reading.nets import Block, Step

__all__ = ["BELOW", "Cell", "Kind", "Scope", "Workspace"]

# The column of a scope's table that tells which row stands below. No blob is called so.
BELOW = ""


class Cell:
    """A blob: the place that a name stands for."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def scope(self) -> Scope:
        """What is known of the workspaces on the stack that the blob holds."""
        return Scope()


@dataclass(eq=False)
class Workspace:
    """Maps names to blobs; a name that was never used stands for a new one.

    Attributes:
        new: makes a blob.
        own: the blobs that exist only here.
        bound: names that stand for blobs of other workspaces, with their names there. They are
            looked up there whenever they are used: meanwhile they may stand for others.
        nets: the nets that have run here. A later net of the same name is not run, but the first
            one again.
    """

    new: Callable[[str], Cell] = Cell
    own: dict[str, Cell] = field(default_factory=dict)
    bound: dict[str, tuple[Workspace, str]] = field(default_factory=dict)
    nets: dict[str, Block] = field(default_factory=dict)

    def cell(self, name: str) -> Cell:
        """Return the blob that a name stands for."""
        if name in self.bound:
            outer, outer_name = self.bound[name]
            return outer.cell(outer_name)
        if name not in self.own:
            self.own[name] = self.new(name)
        return self.own[name]

    def copy(self, new: Callable[[str], Cell]) -> Workspace:
        """Return one that starts as this one and makes its blobs in another way."""
        return Workspace(new, dict(self.own), dict(self.bound), dict(self.nets))

    def but_for(self, names: Iterable[str]) -> Workspace:
        """Return one in which these names stand for new blobs."""
        found = self.copy(Cell)
        for name in names:
            found.bound.pop(name, None)
            found.own[name] = Cell(name)
        return found


@dataclass(frozen=True)
class Kind:
    """What a blob holds: tensors of a type and a shape, or stacks, as numbers of rows.

    A dimension is a number or a symbol of an input, None where it is neither.
    """

    dtype: ir.DataType
    dims: tuple[int | str | None, ...] | None
    is_stack: bool = False

    @property
    def is_fixed(self) -> bool:
        """Tell whether all such tensors have one shape, of which the size is known."""
        return self.dims is not None and None not in self.dims

    def joined(self, other: Kind) -> Kind:
        """Return what covers both, which have one type."""
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return Kind(self.dtype, None, self.is_stack)
        pairs = zip(self.dims, other.dims, strict=True)
        dims = tuple(m if m == n else None for m, n in pairs)
        return Kind(self.dtype, dims, self.is_stack)


@dataclass(eq=False)
class Scope:
    """What is known of all workspaces that are ever pushed on one scope.

    Attributes:
        kinds: what the blobs of a workspace were seen to hold when it was left.
        kept: the columns of the table, in this reading of the net: the blobs that a gradient `Do`
            reads of a workspace, and `BELOW` if there is one.
        left: the workspace that each `Do` leaves.
    """

    kinds: dict[str, Kind] = field(
        default_factory=lambda: {BELOW: Kind(ir.DataType.INT64, (), is_stack=True)}
    )
    kept: dict[str, Kind] = field(default_factory=dict)
    left: dict[Step, Workspace] = field(default_factory=dict)
    _locals: dict[tuple[int | None, str], Cell] = field(default_factory=dict)

    def local(self, depth: int | None, name: str) -> Cell:
        """Return a blob of a workspace at a depth of the stack, None if only the run tells which.

        It is the same one whenever the workspace is pushed: of all workspaces on one stack, only
        one is in use at a time.
        """
        return self._locals.setdefault((depth, name), Cell(name))

    def holds_stack(self, name: str) -> bool:
        """Tell whether a blob of a workspace holds a scope."""
        return name in self.kinds and self.kinds[name].is_stack

    def saw(self, name: str, kind: Kind) -> bool:
        """Note what a blob holds when its workspace is left; tell if its column fits that.

        Of several types only the first one counts: a column has one.
        """
        known = self.kinds.setdefault(name, kind)
        if (known.dtype, known.is_stack) == (kind.dtype, kind.is_stack):
            self.kinds[name] = known.joined(kind)
        return self.kept.get(name, self.kinds[name]) == self.kinds[name]

"""Blobs and workspaces as they are known before a run: places and names, not what they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from whileback.caffe2.reading.nets import Block, Step

__all__ = ["BELOW", "Cell", "Kind", "Layout", "Scope", "Workspace"]

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


class Workspace:
    """Maps names to blobs; a name that was never used stands for a new one."""

    def __init__(
        self, new: Callable[[str], Cell] = Cell, cells: dict[str, Cell] | None = None
    ) -> None:
        self.cells = {} if cells is None else cells
        self._new = new

    def cell(self, name: str) -> Cell:
        """Return the blob that a name stands for."""
        if name not in self.cells:
            self.cells[name] = self._new(name)
        return self.cells[name]


@dataclass(frozen=True, eq=False)
class Layout:
    """A workspace on a stack: its own blobs, names that stand for outer ones, and its nets.

    An outer blob is known by its workspace and its name, and looked up there whenever it is used.
    Caffe2 keeps nets by name: a later net of the same name is not run, but the first one again.
    """

    own: dict[str, Cell]
    bound: dict[str, tuple[Workspace, str]]
    nets: dict[str, Block]

    def copy(self) -> Layout:
        """Return one that can be changed."""
        return Layout(dict(self.own), dict(self.bound), dict(self.nets))

    def cells(self) -> dict[str, Cell]:
        """Return the blobs that all its names stand for."""
        return {**self.own, **{name: ws.cell(outer) for name, (ws, outer) in self.bound.items()}}


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
        kept: the columns of its table: the blobs that a gradient `Do` reads of a workspace, and
            `BELOW` if there is one.
        kinds: what the blobs of a workspace hold when it is left.
        layouts: the workspace that each `Do` leaves.
        reused: whether a `Do` goes on with the workspace on top.
    """

    kept: dict[str, None] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(
        default_factory=lambda: {BELOW: Kind(ir.DataType.INT64, (), is_stack=True)}
    )
    layouts: dict[Step, Layout] = field(default_factory=dict)
    reused: bool = False
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

    def saw(self, name: str, kind: Kind) -> None:
        """Note what a blob holds when its workspace is left."""
        known = self.kinds.get(name, kind)
        same = (known.dtype, known.is_stack) == (kind.dtype, kind.is_stack)
        self.kinds[name] = known.joined(kind) if same else kind

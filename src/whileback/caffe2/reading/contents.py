"""What blobs hold while a net is read."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from whileback.caffe2.reading.cells import Cell, Scope
from whileback.caffe2.reading.stacks import Stack

__all__ = ["Clash", "Content", "Lost", "Opaque", "State"]


class Opaque:
    """What a blob holds that is no tensor and plays no part in the computation: a mutex."""


@dataclass(frozen=True)
class Clash:
    """What a blob holds of which only the run tells the type; `types` are what it may be."""

    types: str

    @classmethod
    def of(cls, *contents: Content | None) -> Clash:
        """Return what may be any of these."""
        return cls(" or ".join(dict.fromkeys(map(_type, contents))))


def _type(content: Content | None) -> str:
    if isinstance(content, Clash):
        return content.types
    if isinstance(content, ir.Value):
        return "unknown" if content.dtype is None else content.dtype.name
    return "nothing" if content is None else "no tensor"


@dataclass(frozen=True, eq=False)
class Lost:
    """What a blob held in a workspace that was left without keeping it."""

    scope: Scope
    name: str


Content = ir.Value | Stack | Opaque | Clash | Lost
# What the blobs hold that were ever written.
State = dict[Cell, Content]

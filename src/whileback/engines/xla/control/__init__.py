"""How branches and loops are said in JAX."""

from __future__ import annotations

from collections.abc import Mapping

from whileback.engines.xla.control.branch import branch
from whileback.engines.xla.control.loop import loop
from whileback.engines.xla.interpret import Control

__all__ = ["CONTROL"]

CONTROL: Mapping[str, Control] = {"If": branch, "Loop": loop, "Scan": loop}

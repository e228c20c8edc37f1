"""An optional is its element, or `ABSENT`."""

from __future__ import annotations

from typing import Any

import numpy as np

from whileback.engines.xla.operator import Operator
from whileback.engines.xla.optional import ABSENT
from whileback.engines.xla.registry import lowering
from whileback.errors import EngineError

__all__: list[str] = []


@lowering("Optional", rows="each")
def optional(op: Operator, element: Any = None) -> Any:
    """The element, or none."""
    return ABSENT if element is None else element


@lowering("OptionalHasElement")
def optional_has_element(op: Operator, value: Any = None) -> Any:
    """Whether there is an element."""
    return np.array(value is not None and value is not ABSENT)


@lowering("OptionalGetElement", rows="each")
def optional_get_element(op: Operator, value: Any) -> Any:
    """The element."""
    if value is ABSENT:
        raise EngineError(
            f"OptionalGetElement {op.node.name!r} is given an optional without an element. Ask "
            "OptionalHasElement first."
        )
    return value

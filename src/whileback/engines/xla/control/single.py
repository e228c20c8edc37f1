"""Numbers that decide on branches and trips, each of which is to be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import EngineError

__all__ = ["require_single"]


def require_single(node: ir.Node, what: str, value: Any) -> None:
    """Raise EngineError unless a value has one element, as ONNX Runtime asks for."""
    if value is not None and np.size(value) != 1:
        raise EngineError(
            f"The engine 'xla' cannot run {node.op_type} {node.name!r}: its {what} has shape "
            f"{list(np.shape(value))}, and is to have one element.",
            node=str(node.name),
            reason=f"the {what} is not one element",
        )

"""Documents in JSON for other programs: numbers that JSON lacks are strings."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["to_json"]


def to_json(document: Any) -> str:
    """Return a document as strict JSON, a member a line.

    Numbers that JSON does not have become "NaN", "Infinity" and "-Infinity", as Protobuf writes
    them.

    >>> to_json({"error": float("inf")})
    '{\n  "error": "Infinity"\n}'
    """
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

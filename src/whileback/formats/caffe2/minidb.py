"""Caffe2's own database files ("minidb"): one record after the other.

A record is two little-endian INT32, the lengths of its key and its value, then both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from whileback.errors import NetDefError

__all__ = ["records"]

_LENGTHS = struct.Struct("<ii")


def records(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield key and value of each record.

    Raises: NetDefError if the data ends inside a record.
    """
    position = 0
    while position < len(data):
        start = position + _LENGTHS.size
        lengths = _LENGTHS.unpack_from(data, position) if start <= len(data) else (-1, -1)
        end = start + sum(lengths)
        if min(lengths) < 0 or end > len(data):
            raise NetDefError(
                f"is no minidb, or truncated: its record at byte {position} goes beyond the end"
            )
        key = data[start : start + lengths[0]].decode("utf-8", errors="replace")
        yield key, data[start + lengths[0] : end]
        position = end

"""Text in messages: Protobuf does not look at whether it is any."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.message import Message

from whileback.errors import FormatError

__all__ = ["require_text"]


def require_text(message: Message, error: type[FormatError] = FormatError) -> None:
    """Refuse a message of which a string, at any depth, is no UTF-8; data is not looked at.

    Raises: the `error`.
    """
    for entry in _entries(message.DESCRIPTOR):
        if entry.is_repeated:
            values = getattr(message, entry.name)
        else:
            values = [getattr(message, entry.name)] if message.HasField(entry.name) else []
        for each in values:
            if isinstance(each, Message):
                require_text(each, error)
            elif isinstance(each, bytes):
                raise error(
                    f"is damaged: the '{entry.name}' of a {message.DESCRIPTOR.name} is {each!r}, "
                    "which is no UTF-8"
                )


@cache
def _entries(descriptor: Any) -> list[Any]:
    """Return the fields of a kind of message that are text, or messages."""
    kinds = ("TYPE_STRING", "TYPE_MESSAGE")
    return [f for f in descriptor.fields if f.type in [getattr(f, kind) for kind in kinds]]

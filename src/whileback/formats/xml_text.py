"""Text in XML."""

from __future__ import annotations

import re

__all__ = ["xml_text"]

# What XML 1.0 cannot hold at all, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return a text with a mark in place of each character that XML cannot hold.

    >>> xml_text("a\\x00b")
    'a\ufffdb'
    """
    return _FORBIDDEN.sub("\ufffd", text)

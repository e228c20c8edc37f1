"""Writes the page of a document: one file that holds all it needs, and asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files

from whileback.page.document import Document, to_data

__all__ = ["write"]

# In the order in which they build on each other.
_SCRIPTS = "model measure align layout draw view links panel search overview walking main".split()
_STYLES = "theme drawing afar frame".split()


def write(document: Document) -> str:
    """Return the page.

    Names and texts of the model come from strangers: they are data in the page, never markup, and a
    policy in its head lets no script run but those written here, and nothing be loaded or sent.
    """
    script = "\n".join(_part(f"{name}.js") for name in _SCRIPTS)
    parts = {
        "title": html.escape(document.name),
        "policy": _policy(script),
        "style": "\n".join(_part(f"{name}.css") for name in _STYLES),
        "document": _embedded(document),
        "layouter": f"{_part('vendor/dagre.min.js')}\n{_part('worker.js')}",
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _part("page.html"))


def _part(name: str) -> str:
    return files(__package__).joinpath("parts", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; worker-src blob:; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def _embedded(document: Document) -> str:
    """Return the document as JSON that ends no element of the page, whatever names say."""
    text = json.dumps(to_data(document), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")

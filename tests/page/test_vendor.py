"""The library that lays out the boxes is the published one."""

from __future__ import annotations

import hashlib
from importlib.resources import files

VENDOR = files("whileback.page") / "parts" / "vendor"
# Of dist/dagre.min.js in @dagrejs/dagre 3.1.3, whose archive npm records as
# sha512-X4aUTwOReZvthaZWOVHqlJ52/ZdhZFEM4+Lh/uR4XooUSLE6p71bcy7MPGzYnNUcNh+nj+i/qJQpCMIdQnSmrg==
PUBLISHED = "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"


def test_it_is_unchanged() -> None:
    assert hashlib.sha256((VENDOR / "dagre.min.js").read_bytes()).hexdigest() == PUBLISHED
    assert PUBLISHED in (VENDOR / "README.md").read_text(encoding="utf-8")


def test_its_licence_is_with_it() -> None:
    assert "Permission is hereby granted" in (VENDOR / "dagre.LICENSE.txt").read_text("utf-8")

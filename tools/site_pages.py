"""A hook of MkDocs: links that lead out of docs/ work in the site as they do in the repository.

Pages that lie elsewhere in the repository are pages of the site, too, and other files that a page
links to are copied; a link to what is not there is left as it is, so that MkDocs warns of it.
`<!-- help: COMMAND -->`, on a line of its own, becomes what the command says of itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Where each page that lies outside of docs/ stands in the site.
OUTSIDE = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/training/README.md": "project/node.md",
}
# Blocks of code are matched as well, so that nothing in them is taken for a link.
LINK = re.compile(r"(?P<code>^( *)```.*?^\2```$)|\]\((?P<target>[^)\s#:]+)(?=[#)])", re.M | re.S)

HELP = re.compile(r"^<!-- help: (\w+) -->$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/, and the files that pages link to."""
    from mkdocs.structure.files import File

    sources = {page.src_uri: f"docs/{page.src_uri}" for page in files.documentation_pages()}
    for source, place in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=relinked(text, source, place)))
        sources[place] = source
    for source in sources.values():
        for path in linked((ROOT / source).read_text(encoding="utf-8"), source):
            if _place(path) == path and (ROOT / path).is_file() and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to where the site has what they mean, and put help in its place."""
    place = page.file.src_uri
    markdown = HELP.sub(lambda match: f"```text\n{_help(match[1])}```", markdown)
    return markdown if place in OUTSIDE.values() else relinked(markdown, f"docs/{place}", place)


def relinked(text: str, source: str, place: str) -> str:
    """Return the text of the file `source` for where it stands in the site."""

    def replaced(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        target = _place(_resolved(match["target"], source))
        return f"]({posixpath.relpath(target, posixpath.dirname(place) or '.')}"

    return LINK.sub(replaced, text)


def linked(text: str, source: str) -> list[str]:
    """Return the paths in the repository to which links of the file `source` lead."""
    return [_resolved(m["target"], source) for m in LINK.finditer(text) if m["target"]]


def _help(command: str) -> str:
    from whileback.cli import main

    os.environ["COLUMNS"] = "96"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return printed.getvalue()


def _resolved(target: str, source: str) -> str:
    return os.path.normpath(posixpath.join(posixpath.dirname(source), target))


def _place(path: str) -> str:
    """Return where a file of the repository stands in the site."""
    return OUTSIDE.get(path) or path.removeprefix("docs/")

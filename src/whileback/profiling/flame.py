"""A profile as a flame graph: a picture in SVG, and the folded stacks that other tools draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from whileback.formats.xml_text import xml_text
from whileback.graph.tape import size_text
from whileback.profiling.profile import Cost, Profile

__all__ = ["to_folded", "to_svg"]

_WIDTH, _ROW, _TOP, _LETTER = 1200.0, 20, 48, 6.6
# Frames that are narrower are drawn together.
_THIN = 0.5
# Of longer labels, ends of so many letters still tell something.
_READABLE = 14
_STYLE = """\
:root{background:#fff;min-width:960px}
text{font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11px;fill:#1b1b1f}
.title,.key{fill:#1b1b1f}rect.frame{stroke:#fff;stroke-width:.7}
.model{fill:#d5d5dc}.forward{fill:#8ec3ee}.backward{fill:#f5b27a}
@media(prefers-color-scheme:dark){:root{background:#17171b}.title,.key{fill:#ececf1}
rect.frame{stroke:#17171b}.model{fill:#a5a5b0}}
g:hover>rect.frame{stroke:#1b1b1f;stroke-width:1.5}"""


def to_folded(profile: Profile) -> str:
    """Return a line for each node: the nodes around it and itself, then its own microseconds.

    Brendan Gregg's format, which flamegraph.pl, speedscope and others read.
    """
    own = profile.own_times()
    lines = (f"{';'.join(map(_frame, (*c.path, c.name)))} {own[c.name]}" for c in profile.costs)
    return "".join(f"{profile.model};{line}\n" for line in lines)


def _frame(name: str) -> str:
    return name.replace(";", ",").replace(" ", "_")


def to_svg(profile: Profile) -> str:
    """Return the picture: time from left to right, bodies below the nodes that they belong to.

    Nodes of one body stand in the order of the model. It needs nothing but itself, shows numbers
    where the pointer rests, and is dark where the reader's screen is.
    """
    inner: dict[str, list[Cost]] = {}
    for cost in profile.costs:
        inner.setdefault(cost.path[-1] if cost.path else "", []).append(cost)
    depth = 1 + max((len(cost.path) + 1 for cost in profile.costs), default=0)
    height = _TOP + depth * _ROW + 12
    frames = "\n".join(_frames(inner, "", 0.0, _WIDTH / max(profile.time, 1), 1))
    title = f"{xml_text(profile.model)}: {profile.time / 1000:.3f} ms a run while nodes are noted"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height}" '
        f'preserveAspectRatio="xMidYMin" role="img" aria-label={quoteattr(title)}>\n'
        f"<style>{_STYLE}</style>\n"
        f'<text class="title" x="6" y="18">{escape(title)}</text>\n{_key()}\n'
        f"{_box('model', 0.0, _WIDTH, 0, (profile.model, ''), title)}\n{frames}\n</svg>\n"
    )


def _key() -> str:
    """Return what the colours mean."""
    parts = []
    for place, kind in enumerate(("forward", "backward")):
        x = 6 + 100 * place
        parts.append(f'<rect class="{kind}" x="{x}" y="28" width="12" height="12" rx="2"/>')
        parts.append(f'<text class="key" x="{x + 17}" y="38">{kind}</text>')
    return "".join(parts)


def _frames(
    inner: dict[str, list[Cost]], parent: str, x: float, scale: float, depth: int
) -> Iterator[str]:
    for kind, costs in _groups(inner.get(parent, ()), scale):
        width = sum(cost.time for cost in costs) * scale
        if len(costs) > 1:
            told = f"{len(costs)} nodes, {width / scale / 1000:.3f} ms together"
            yield _box(kind, x, width, depth, (f"{len(costs)} nodes", ""), told)
        elif width >= _THIN:
            (cost,) = costs
            labels = (f"{cost.name} ({cost.operator})", cost.operator)
            yield _box(kind, x, width, depth, labels, _told(cost))
            yield from _frames(inner, cost.name, x, scale, depth + 1)
        x += width


def _groups(costs: Iterable[Cost], scale: float) -> Iterator[tuple[str, list[Cost]]]:
    """Yield each cost for itself, but those too thin to be seen with their neighbours."""
    for (kind, thin), group in groupby(
        costs, lambda cost: (_kind(cost), cost.time * scale < _THIN)
    ):
        members = list(group)
        yield from [(kind, members)] if thin else ((kind, [cost]) for cost in members)


def _kind(cost: Cost) -> str:
    return "backward" if cost.is_backward else "forward"


def _told(cost: Cost) -> str:
    average = f", {cost.time / cost.count:.1f} µs each" if cost.count > 1 else ""
    stems = f"\nfrom {cost.source}" if cost.is_backward else ""
    memory = f"\n{size_text(cost.output)} written, at most {size_text(cost.in_use)} in use"
    return (
        f"{cost.name} ({cost.operator})\n{cost.time / 1000:.3f} ms, {cost.count} times{average}"
        f"{_trips(cost)}{memory}{stems}"
    )


def _trips(cost: Cost) -> str:
    count = len(cost.trip_times)
    if not count:
        return ""
    first, most = size_text(cost.trip_in_use[0]), size_text(max(cost.trip_in_use))
    return f"\n{count} trips; {first} in use in the first of them, at most {most}"


def _box(kind: str, x: float, width: float, depth: int, labels: tuple[str, str], told: str) -> str:
    told, y = xml_text(told), _TOP + depth * _ROW
    shown = _fitting(labels, int((width - 6) / _LETTER))
    text = f'<text x="{x + 3:.1f}" y="{y + 14}">{escape(shown)}</text>' if shown else ""
    return (
        f'<g><title>{escape(told)}</title><rect class="frame {kind}" x="{x:.1f}" y="{y}" '
        f'width="{width:.1f}" height="{_ROW - 1}" rx="2"/>{text}</g>'
    )


def _fitting(labels: tuple[str, str], letters: int) -> str:
    """Return the long label, its end, the short one, or nothing: what finds room."""
    long, short = map(xml_text, labels)
    if len(long) <= letters:
        return long
    if letters >= _READABLE:
        return f"…{long[1 - letters :]}"
    return short if len(short) <= letters else ""

"""What there is to know of a model at first, as one screen of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from whileback.graph.tape import size_text
from whileback.showing.summary import Block, Port, Summary

__all__ = ["to_screen"]

_WIDTH = 96
# So many inputs, outputs, weights and operators are shown, and so many lines of blocks.
_VALUES, _WEIGHTS, _OPERATORS, _BLOCKS = 6, 3, 12, 16
# Of what a loop keeps, so many values are shown.
_KEPT = 3
_HINT = "--all shows every node, --node NAME one of them, --depth N bodies down to that depth"


def to_screen(summary: Summary) -> str:
    """Return a model as one screen of text."""
    lines = [f"{summary.name}: {', '.join(summary.opsets)}, IR {summary.ir_version}"]
    lines += [_sizes(summary)]
    for title, ports in (("inputs", summary.inputs), ("outputs", summary.outputs)):
        lines += [title, *_some([f"  {_port(port)}" for port in ports], _VALUES)]
    lines += _weights(summary)
    lines += _operators("operators", summary.own_nodes)
    lines += _operators("operators of gradients", summary.gradient_nodes)
    lines += _blocks(summary)
    if summary.functions:
        texts = [f"  {name}: {count} nodes" for name, count in summary.functions.items()]
        lines += ["functions", *_some(texts, _VALUES)]
    return "\n".join([*map(_clipped, lines), _HINT])


def _sizes(summary: Summary) -> str:
    own, new = sum(summary.own_nodes.values()), sum(summary.gradient_nodes.values())
    nodes = f"{own + new} nodes" + (f", {new} of them of gradients" if new else "")
    nested = f", nested {summary.depth} deep" if summary.depth else ""
    if not summary.weights:
        return f"{nodes}{nested}; no weights"
    size = size_text(sum(weight.bytes for weight in summary.weights))
    return f"{nodes}{nested}; {size} in {len(summary.weights)} weights and constants"


def _port(port: Port) -> str:
    return f"{port.name} : {port.type}" + (f" = {port.default}" if port.default else "")


def _weights(summary: Summary) -> Iterator[str]:
    shown = [weight for weight in summary.weights[:_WEIGHTS] if weight.bytes >= 1024]
    if shown:
        yield "largest weights"
    for weight in shown:
        yield f"  {weight.name} : {weight.type}, {size_text(weight.bytes)}"


def _operators(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if not counts:
        return
    yield title
    texts = [f"{count} {operator}" for operator, count in counts.items()]
    yield from textwrap.wrap(
        ", ".join(_some(texts, _OPERATORS)), _WIDTH, initial_indent="  ", subsequent_indent="  "
    )


def _blocks(summary: Summary) -> Iterator[str]:
    """Yield blocks as an indented list, as many levels of it as find room."""
    if not summary.blocks:
        return
    yield "loops and branches, and how many nodes they have"
    lines = list(_tree(summary.blocks, 1))
    for levels in range(2, summary.depth + 1):
        deeper = list(_tree(summary.blocks, levels))
        if len(deeper) > _BLOCKS:
            break
        lines = deeper
    yield from _some(lines, _BLOCKS)


def _tree(blocks: Sequence[Block], levels: int) -> Iterator[str]:
    for block in blocks:
        bodies = ", ".join(f"{name} {count}" for name, count in block.bodies.items())
        deeper = f", {block.depth - 1} deeper" if levels == 1 and block.inner else ""
        source = f"  # from {_end(block.source)}" if block.source else ""
        yield f"  {_end(block.name)} ({block.operator}): {bodies}{deeper}{source}"
        for line in _some([*block.tape.lines()] if block.tape else [], 1 + _KEPT):
            yield f"    # {line}"
        if levels > 1:
            yield from (f"  {line}" for line in _tree(block.inner, levels - 1))


def _some(lines: Sequence[str], count: int) -> Sequence[str]:
    """Return the lines, or the first of them and how many there are more."""
    if len(lines) <= count:
        return lines
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    return [*lines[: count - 1], f"{indent}… {len(lines) - count + 1} more"]


def _end(name: str) -> str:
    """Return the end of a long name, in which names of parts of a model differ."""
    return name if len(name) <= _WIDTH // 3 else f"…{name[1 - _WIDTH // 3 :]}"


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"

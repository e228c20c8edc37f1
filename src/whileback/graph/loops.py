"""Loops that carry, read and write more than they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from whileback.graph.scopes import LoopView, ScanInput

__all__ = ["More", "extend_loop"]


@dataclass
class More:
    """What a loop is to do besides: values of its body, and values around it.

    Attributes:
        carried: what is carried: its start, its name in a trip, after the trip.
        read: stacks that a `Scan` reads.
        written: rows that are written, along which axis, and whether from the end.
    """

    carried: list[tuple[ir.Value, ir.Value, ir.Value]] = field(default_factory=list)
    read: list[ScanInput] = field(default_factory=list)
    written: list[tuple[ir.Value, int, bool]] = field(default_factory=list)


def extend_loop(view: LoopView, more: More) -> tuple[Sequence[ir.Value], Sequence[ir.Value]]:
    """Put a loop that does more in the place of a loop.

    Returns the outputs that stand for those of the old one, whose name, body and readers it has;
    then what it carries and writes besides, which has neither name nor type yet. In the body, each
    of the added outputs must be a value of its own.
    """
    node, body = view.node, view.body
    is_while = view.trip is not None
    control = [view.limit, view.start] if is_while else []
    starts = [carry.initial for carry in view.carries] + [start for start, _, _ in more.carried]
    reads = [*view.scan_inputs, *more.read]
    writes = [(s.row, s.axis, s.reverse) for s in view.scan_outputs] + more.written
    inputs = [carry.input for carry in view.carries] + [value for _, value, _ in more.carried]
    outputs = [carry.output for carry in view.carries] + [value for _, _, value in more.carried]
    _set(body.inputs, [*body.inputs[: len(control)], *inputs, *(s.row for s in reads)])
    _set(body.outputs, [*body.outputs[: int(is_while)], *outputs, *(row for row, _, _ in writes)])
    new = ir.Node(
        node.domain,
        node.op_type,
        [*control, *starts, *(s.stack for s in reads)],
        _attributes(view, reads, writes),
        num_outputs=len(outputs) + len(writes),
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
    first = len(view.carries)
    last = first + len(more.carried)
    own = [*new.outputs[:first], *new.outputs[last : last + len(view.scan_outputs)]]
    _replace(node, new, own)
    return own, [value for value in new.outputs if value not in own]


def _set(values: Any, new: Sequence[ir.Value]) -> None:
    values.clear()
    values.extend(new)


def _attributes(
    view: LoopView, reads: Sequence[ScanInput], writes: Sequence[tuple[ir.Value, int, bool]]
) -> list[ir.Attr]:
    if view.trip is not None:
        return [ir.AttrGraph("body", view.body)]
    return [
        ir.AttrGraph("body", view.body),
        ir.AttrInt64("num_scan_inputs", len(reads)),
        ir.AttrInt64s("scan_input_axes", [each.axis for each in reads]),
        ir.AttrInt64s("scan_input_directions", [int(each.reverse) for each in reads]),
        ir.AttrInt64s("scan_output_axes", [axis for _, axis, _ in writes]),
        ir.AttrInt64s("scan_output_directions", [int(reverse) for _, _, reverse in writes]),
    ]


def _replace(node: ir.Node, new: ir.Node, outputs: Sequence[ir.Value]) -> None:
    """Put a node in the place of another one, and these outputs in the place of its outputs."""
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, new)
    for old, value in zip(node.outputs, outputs, strict=True):
        value.name, old.name = old.name, None
        value.type, value.shape = old.type, old.shape
        old.replace_all_uses_with(value, replace_graph_outputs=True)
    node.resize_inputs(0)
    node.attributes.clear()
    graph.remove(node)

"""Making forward operators keep values: stacks of a loop, extra outputs of an `If`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from whileback.graph.builder import Builder
from whileback.graph.scopes import LoopView

__all__ = ["add_branch_output", "hand_over", "replace_uses", "stack_of"]


def stack_of(op: Builder, view: LoopView, value: ir.Value) -> ir.Value:
    """Return the stack of the value's rows over all trips; the forward loop is made to write it.

    A `Loop` may return one of its inputs, or one value twice; ONNX Runtime 1.32 leaves such
    outputs of a `Scan` unwritten.
    """
    for scan in view.scan_outputs:
        if scan.row is value and scan.axis == 0 and not scan.reverse:
            return scan.stack
    for index, row in enumerate(_added_rows(view)):
        if row is value:
            return view.node.outputs[len(view.carries) + len(view.scan_outputs) + index]
    plain = view.trip is not None or _is_made_within(view.body, value)
    view.body.outputs.append(value if plain else _own_value(op, view, value))
    for key in ("scan_output_axes", "scan_output_directions"):
        if key in view.node.attributes:
            numbers = [*view.node.attributes[key].as_ints(), 0]
            view.node.attributes[key] = ir.AttrInt64s(key, numbers)
    shape = None if value.shape is None else ir.Shape([_length(view), *value.shape])
    return _add_node_output(op, view.node, value, shape)


def _added_rows(view: LoopView) -> list[ir.Value]:
    """Return what was added to the body's outputs since the view was taken."""
    first = len(view.carries) + len(view.scan_outputs) + (0 if view.proceed is None else 1)
    return [_original(value) for value in view.body.outputs[first:]]


def _is_made_within(body: ir.Graph, value: ir.Value) -> bool:
    """Tell whether a node of the body makes the value, and the body does not return it yet."""
    producer = value.producer()
    return producer is not None and producer.graph is body and value not in body.outputs


def _original(value: ir.Value) -> ir.Value:
    node = value.producer()
    if node is not None and node.metadata_props.get("whileback.kept"):
        return node.inputs[0] or value
    return value


def _own_value(op: Builder, view: LoopView, value: ir.Value) -> ir.Value:
    node = ir.node("Identity", [value], metadata_props={"whileback.kept": "1"})
    node.name = op.names.fresh(f"{value.name}/kept")
    output = node.outputs[0]
    output.name, output.type, output.shape = node.name, value.type, value.shape
    view.body.append(node)
    return output


def _length(view: LoopView) -> int | ir.SymbolicDim:
    stacks = [(s.stack, s.axis) for s in view.scan_inputs]
    stacks += [(s.stack, s.axis) for s in view.scan_outputs]
    for stack, axis in stacks:
        if stack.shape is not None:
            return list(stack.shape)[axis]
    return ir.SymbolicDim(None)


def _add_node_output(op: Builder, node: ir.Node, row: ir.Value, shape: ir.Shape | None) -> ir.Value:
    node.resize_outputs(len(node.outputs) + 1)
    result = node.outputs[-1]
    result.name = op.names.fresh(f"{row.name}/tape")
    result.type = None if row.dtype is None else ir.TensorType(row.dtype)
    result.shape = shape
    return result


def add_branch_output(
    op: Builder,
    node: ir.Node,
    branch: ir.Graph,
    other: ir.Graph,
    value: ir.Value,
    like: ir.Value | None = None,
) -> ir.Value:
    """Return a value out of one branch of an `If`.

    Out of the other branch come zeros of the shape of `like`, or without that an empty tensor.
    Each output of a branch needs a value of its own: ONNX Runtime 1.32 gives zeros for the first
    of two that share one.
    """
    dtype = value.dtype or ir.DataType.FLOAT
    side = op.within(other)
    side.origin = None
    zeros = np.zeros(0, dtype.numpy())
    nothing = side.constant(zeros) if like is None else side.zeros_like(like, dtype)
    for graph, source, suffix in ((branch, value, "kept"), (other, nothing, "none")):
        added = ir.node("Identity", [source], name=op.names.fresh(f"{value.name}/{suffix}"))
        output = added.outputs[0]
        output.name, output.type, output.shape = added.name, ir.TensorType(dtype), source.shape
        graph.append(added)
        graph.outputs.append(output)
    return _add_node_output(op, node, value, None if like is None else value.shape)


def replace_uses(value: ir.Value, replacement: ir.Value, users: set[ir.Node]) -> None:
    """Make the given nodes, and no others, read the replacement."""
    for use in list(value.uses()):
        if use.node in users:
            use.node.replace_input_with(use.idx, replacement)


def hand_over(
    graph: ir.Graph, value: ir.Value, uses: Sequence[tuple[ir.Node, int]], result: ir.Value
) -> None:
    """Let another value have the name, the type and the readers of a value."""
    for reader, index in uses:
        reader.replace_input_with(index, result)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result
    value.name, result.name = result.name, value.name
    result.type, result.shape = value.type, value.shape

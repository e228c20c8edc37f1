"""Lifting nodes to a newer opset: the driver, and what the changes of operators are written with.

The changes themselves, one function for each, are in `lifts.py`. Nodes are changed in place, so
that their outputs stay the same values, inside bodies as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.graph.moving import become
from whileback.graph.scopes import walk

__all__ = ["Editor", "Lift", "lift_graph"]

Lift = Callable[["Editor", ir.Node], None]


class Editor:
    """Changes nodes of one model; the constants that it makes belong to the main graph."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.changed = False
        self.constants: list[ir.Value] = []
        self.nodes: list[ir.Node] = []

    def constant(self, node: ir.Node, label: str, data: Any, dtype: Any = np.int64) -> ir.Value:
        """Return a new constant, named after the node that it is for."""
        tensor = ir.tensor(np.array(data, dtype))
        value = ir.Value(
            name=f"{node.name or node.op_type}/{label}",
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self.constants.append(value)
        return value

    def before(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
    ) -> ir.Value:
        """Insert a node before this one, in the same graph, and return its output."""
        new = ir.node(op_type, inputs, attributes)
        new.name = f"{node.name}/{op_type}" if node.name else ""
        new.metadata_props.update(node.metadata_props)
        assert node.graph is not None
        node.graph.insert_before(node, new)
        self.nodes.append(new)
        return new.outputs[0]

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Let the node read a value at a position that it may not have had before."""
        node.resize_inputs(max(index + 1, len(node.inputs)))
        node.replace_input_with(index, value)

    def to_input(
        self, node: ir.Node, attribute: str, index: int, dtype: Any = np.int64, axis: bool = True
    ) -> None:
        """Turn an attribute, if it is there, into a constant input: a list, or `axis=False`."""
        given = node.attributes.pop(attribute, None)
        if given is not None:
            data = np.array(given.value, dtype)
            data = np.atleast_1d(data) if axis else data
            self.set_input(node, index, self.constant(node, attribute, data, dtype))

    def become(
        self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], **attributes: Any
    ) -> None:
        """Make the node another one that computes the same output."""
        become(node, op_type, inputs, attributes)


def lift_graph(graph: ir.Graph, target: int, lifts: Mapping[tuple[str, int], Lift]) -> Editor:
    """Lift every node of the default domain to the target opset.

    Args:
        graph: a main graph; its nodes know their opsets.
        target: the opset to have afterwards.
        lifts: what an operator's version changes; a version that is not there changes nothing.

    Returns: the editor, with the new constants.

    Raises: UnsupportedError for a node that the target cannot express.
    """
    editor = Editor(target)
    changing = {op_type for op_type, _ in lifts}
    for node in list(walk(graph)):
        if node.domain or node.op_type not in changing:
            continue
        for version in range((node.version or target) + 1, target + 1):
            lift = lifts.get((node.op_type, version))
            if lift is not None:
                lift(editor, node)
                editor.changed = True
    return editor

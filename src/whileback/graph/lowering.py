"""Writing nodes in an older opset, where that has the same in another form."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from whileback.graph.constants import known_ints
from whileback.graph.lifting import Editor
from whileback.graph.names import Names
from whileback.graph.scopes import walk

__all__ = ["lower_graph"]

Lowering = Callable[[Editor, ir.Node], None]


def lower_graph(graph: ir.Graph, have: int, target: int) -> None:
    """Give the nodes of the default domain the form that they had in an older opset.

    Those that cannot be written in that form stay as they are.

    Args:
        graph: a main graph in normal form.
        have: its opset.
        target: the opset in whose form nodes are wanted.
    """
    editor = Editor(target)
    for node in list(walk(graph)):
        for since, lower in _LOWERINGS.get(node.op_type, ()) if not node.domain else ():
            if target < since <= have:
                lower(editor, node)
    names = Names.of(graph)
    for value in editor.constants:
        value.name = names.fresh(str(value.name))
        graph.register_initializer(value)
    for node in editor.nodes:
        node.name = names.fresh(node.name or node.op_type)
        node.outputs[0].name = names.fresh(node.name)


def _axes_to_attribute(edit: Editor, node: ir.Node) -> None:
    """Constant axes were an attribute; without any, all axes are summed over in both."""
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    known = known_ints(axes)
    keeps_all = bool(node.attributes.get_int("noop_with_empty_axes", 0)) and not known
    if keeps_all or (axes is not None and known is None):
        return
    node.attributes.pop("noop_with_empty_axes", None)
    node.resize_inputs(1)
    if known:
        node.attributes.add(ir.AttrInt64s("axes", known))


def _drop_number_of_parts(edit: Editor, node: ir.Node) -> None:
    """Parts of one size need no number."""
    axis = node.attributes.get_int("axis", 0)
    data = node.inputs[0]
    dim = None if data is None or data.shape is None else data.shape[axis]
    if isinstance(dim, int) and dim % len(node.outputs) == 0:
        node.attributes.pop("num_outputs", None)


def _drop_allowzero(edit: Editor, node: ir.Node) -> None:
    """Zeros in a shape only matter where there are some."""
    shape = known_ints(node.inputs[1])
    if not node.attributes.get_int("allowzero", 0) or (shape is not None and 0 not in shape):
        node.attributes.pop("allowzero", None)


def _slice_shape(edit: Editor, node: ir.Node) -> None:
    """A part of a shape was cut out of the whole one."""
    if "start" not in node.attributes and "end" not in node.attributes:
        return
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", 2**31)
    whole = edit.before(node, "Shape", node.inputs)
    bounds = [edit.constant(node, label, [n]) for label, n in (("start", start), ("end", end))]
    edit.become(node, "Slice", [whole, *bounds])


def _cast(edit: Editor, node: ir.Node) -> None:
    """The type that a value is to have was an attribute."""
    like = node.inputs[1]
    if like is not None and like.dtype is not None:
        edit.become(node, "Cast", node.inputs[:1], to=like.dtype)


_LOWERINGS: dict[str, tuple[tuple[int, Lowering], ...]] = {
    "ReduceL1": ((18, _axes_to_attribute),),
    "ReduceL2": ((18, _axes_to_attribute),),
    "ReduceLogSum": ((18, _axes_to_attribute),),
    "ReduceLogSumExp": ((18, _axes_to_attribute),),
    "ReduceMax": ((18, _axes_to_attribute),),
    "ReduceMean": ((18, _axes_to_attribute),),
    "ReduceMin": ((18, _axes_to_attribute),),
    "ReduceProd": ((18, _axes_to_attribute),),
    "ReduceSumSquare": ((18, _axes_to_attribute),),
    "ReduceSum": ((13, _axes_to_attribute),),
    "Split": ((18, _drop_number_of_parts),),
    "Reshape": ((14, _drop_allowzero),),
    "Shape": ((15, _slice_shape),),
    "CastLike": ((15, _cast),),
}

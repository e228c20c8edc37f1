"""`split`: a model cut in two, of which one part runs now, and the other one later."""

from __future__ import annotations

import onnx_ir as ir

from whileback.graph.cleanup import prune
from whileback.graph.copying import clone
from whileback.graph.scopes import is_loop, is_standard

__all__ = ["split"]


def split(model: ir.Model, count: int) -> tuple[ir.Model, ir.Model]:
    """Return a model of the first `count` outputs, and one of the others, which goes on from there.

    The first part computes nothing that its own results do not need. What the second one reads of
    it becomes outputs of the first part, behind its own, and inputs of the second, by its name.
    Inputs of the second part are only those that it reads. Of a gradient, the first part is the
    model's own run, with the tapes of its loops, and the second one is the way back.

    Args:
        model: in normal form; it stays as it is.
        count: how many outputs the first part has at least.
    """
    first, second = clone(model), clone(model)
    del first.graph.outputs[count:]
    prune(first.graph)
    made = {value.name: value for node in first.graph for value in node.outputs if _is_costly(node)}
    del second.graph.outputs[:count]
    handed = _read_later(second.graph, {str(name) for name in made})
    results = [made[value.name] for value in handed]
    first.graph.outputs.extend(v for v in results if not v.is_graph_output())
    for part in (first.graph, second.graph):
        _drop_unread_inputs(part)
    return first, second


def _is_costly(node: ir.Node) -> bool:
    return not is_standard(node, "Constant")


def _read_later(graph: ir.Graph, made: set[str]) -> list[ir.Value]:
    """Make inputs of the values that are made elsewhere, and return them."""
    varies = any(is_loop(node) or is_standard(node, "If") for node in graph)
    inputs = []
    for node in graph:
        for value in node.outputs:
            if value.name in made:
                inputs.append(_input(value, varies))
                value.replace_all_uses_with(inputs[-1], replace_graph_outputs=True)
                value.name = None
    prune(graph)
    read = [value for value in inputs if value.uses() or value.is_graph_output()]
    graph.inputs.extend(read)
    return read


def _input(value: ir.Value, varies: bool) -> ir.Value:
    """Return an input like a value.

    Where there are loops or branches, no shape is said: a stack of no trips may have another rank
    than the graph says, and runtimes refuse such an input.
    """
    shape = None
    if value.shape is not None and not varies:
        shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])
    return ir.Value(name=value.name, type=value.type, shape=shape)


def _drop_unread_inputs(graph: ir.Graph) -> None:
    for value in list(graph.inputs):
        if not value.uses() and not value.is_graph_output():
            graph.inputs.remove(value)
            graph.initializers.pop(str(value.name), None)

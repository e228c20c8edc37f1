"""The gradient of `Col2Im`."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required
from whileback.gradient.rules.tensor.places import pad_along
from whileback.graph.builder import Builder
from whileback.graph.constants import known_ints
from whileback.graph.shapes import rank, size


@rule("Col2Im")
def col2im(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y adds up blocks X[n,c·k,l] at s·l + d·k - p, so dX[n,c·k,l] = dY[n,c,s·l + d·k - p]."""
    count = _count_axes(node)
    axes, block = list(range(2, 2 + count)), required(node, 2)
    strides, dilations = (
        node.attributes.get_ints(name, [1] * count) for name in ("strides", "dilations")
    )
    pads = node.attributes.get_ints("pads", [0] * 2 * count)
    read = pad_along(op, dY, pads, axes) if any(pads) else dY
    for k in reversed(range(count)):
        within = op.Mul(op.arange(_entry(op, block, k)), dilations[k])
        room = op.Sub(op.dim(read, 2 + k), op.Mul(op.Sub(_entry(op, block, k), 1), dilations[k]))
        starts = op.Range(0, op.Squeeze(room, [0]), strides[k])
        read = op.Gather(read, op.Add(op.Unsqueeze(within, [1]), starts), axis=2 + k)
    blocks = [axis + offset for offset in (0, 1) for axis in range(2, 2 + 2 * count, 2)]
    return op.reshape(op.Transpose(read, perm=[0, 1, *blocks]), required(node))


def _entry(op: Builder, numbers: ir.Value, index: int) -> ir.Value:
    known = known_ints(numbers)
    return op.Slice(numbers, [index], [index + 1]) if known is None else op.constant([known[index]])


def _count_axes(node: ir.Node) -> int:
    """Return how many spatial axes the image has."""
    for name, each in (("strides", 1), ("dilations", 1), ("pads", 2)):
        if name in node.attributes:
            return len(node.attributes[name].as_ints()) // each
    image, block = required(node, 1), required(node, 2)
    dims = rank(node.outputs[0])
    known = size(image) or size(block) or (dims and dims - 2)
    if known:
        return known
    raise UnsupportedError(
        f"Node '{node.name}' (Col2Im) has no gradient: nothing shows how many axes its image has. "
        f"Declare the shape of '{image.name}', or give the node the attribute 'strides'."
    )

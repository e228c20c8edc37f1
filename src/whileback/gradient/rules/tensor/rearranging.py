"""Gradients of operators that put elements in another order."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import required


@rule("SpaceToDepth")
def space_to_depth(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y has the blocks of X as channels, so dX is dY with its channels as blocks."""
    mode = node.attributes.get_string("mode", "DCR")
    return op.DepthToSpace(dY, blocksize=node.attributes["blocksize"].as_int(), mode=mode)


@rule("DepthToSpace")
def depth_to_space(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y has the channels of X as blocks, so dX is dY with its blocks as channels.

    SpaceToDepth makes the place in the block the outer number of the channel; for mode CRD,
    where it is the inner one, the two are swapped.
    """
    block = node.attributes["blocksize"].as_int()
    depth = op.SpaceToDepth(dY, blocksize=block)
    if node.attributes.get_string("mode", "DCR") == "DCR":
        return depth
    sizes = op.dim(dY, 0), [block * block], op.dim(dY, 1), op.Shape(depth, start=2)
    parts = op.Reshape(depth, op.Concat(*sizes, axis=0), allowzero=1)
    swapped = op.Transpose(parts, perm=[0, 2, 1, 3, 4])
    return op.reshape(swapped, required(node))


@rule("ReverseSequence")
def reverse_sequence(op: GradientBuilder, node: ir.Node, dY: ir.Value) -> ir.Value:
    """Y is X with the head of each sequence reversed, so dX is dY with the same heads reversed."""
    return op.ReverseSequence(
        dY,
        required(node, 1),
        batch_axis=node.attributes.get_int("batch_axis", 1),
        time_axis=node.attributes.get_int("time_axis", 0),
    )

"""What the versions 8 to 26 of the default opset have changed, operator by operator.

Only changes that make a node of the older version mean something else, or nothing, are here;
new types, new optional inputs and new attributes with neutral defaults need no work.
`TYPED_LIFTS` need the types of what their nodes read.

Source: https://github.com/onnx/onnx/blob/main/docs/Changelog.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.lifting import Editor, Lift
from whileback.graph.names import label
from whileback.graph.tensors import known_tensor

__all__ = ["LIFTS", "TYPED_LIFTS"]

LIFTS: dict[tuple[str, int], Lift] = {}
TYPED_LIFTS: dict[tuple[str, int], Lift] = {}

_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)


def _lift(version: int, *op_types: str, typed: bool = False) -> Callable[[Lift], Lift]:
    """Register a function for what this version changes in these operators."""

    def register(function: Lift) -> Lift:
        for op_type in op_types:
            (TYPED_LIFTS if typed else LIFTS)[op_type, version] = function
        return function

    return register


@_lift(9, "Upsample")
def _upsample_scales(edit: Editor, node: ir.Node) -> None:
    edit.to_input(node, "scales", 1, np.float32)


@_lift(9, "BatchNormalization", typed=True)
def _batch_normalization_spatial(edit: Editor, node: ir.Node) -> None:
    """Statistics for each element instead of each channel (`spatial=0`) are written out."""
    spatial = node.attributes.pop("spatial", None)
    if spatial is None or spatial.as_int():
        return
    if len(node.outputs) > 1:
        raise _unsupported(node, 8, "with spatial=0 in training mode")
    x, scale, bias, mean, variance = node.inputs
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    small = edit.constant(node, "epsilon", epsilon, _dtype(node, "epsilon"))
    deviation = edit.before(node, "Sqrt", [edit.before(node, "Add", [variance, small])])
    centred = edit.before(node, "Div", [edit.before(node, "Sub", [x, mean]), deviation])
    edit.become(node, "Add", [edit.before(node, "Mul", [centred, scale]), bias])


@_lift(9, "Scan")
def _scan_batches(edit: Editor, node: ir.Node) -> None:
    """Version 8 ran once for each element of a batch: a Scan over the batch around the Scan."""
    if node.inputs[0] is not None:
        raise _unsupported(node, 8, "with sequence_lens")
    body = node.attributes.pop("body")
    count = node.attributes.pop("num_scan_inputs").as_int()
    directions = node.attributes.pop("directions", None)
    stacks = node.inputs[1:]
    rows = [_row(f"row_{index}", value) for index, value in enumerate(stacks)]
    inner = ir.node(
        "Scan",
        rows,
        {"num_scan_inputs": count, "body": body.as_graph()},
        num_outputs=len(node.outputs),
    )
    if directions is not None:
        inner.attributes.add(ir.AttrInt64s("scan_input_directions", directions.as_ints()))
    for index, (output, batch) in enumerate(zip(inner.outputs, node.outputs, strict=True)):
        output.name, output.type = f"result_{index}", batch.type
    graph = ir.Graph(rows, inner.outputs, nodes=[inner], name="batch")
    edit.become(node, "Scan", stacks, num_scan_inputs=len(stacks), body=graph)


def _row(name: str, stack: ir.Value | None) -> ir.Value:
    if stack is None:
        return ir.Value(name=name)
    shape = None if stack.shape is None else ir.Shape(list(stack.shape)[1:])
    return ir.Value(name=name, type=stack.type, shape=shape)


@_lift(10, "Upsample")
def _upsample_is_resize(edit: Editor, node: ir.Node) -> None:
    node.op_type = "Resize"


@_lift(10, "Slice")
def _slice_bounds(edit: Editor, node: ir.Node) -> None:
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        edit.to_input(node, name, index)


@_lift(10, "TopK")
def _topk_k(edit: Editor, node: ir.Node) -> None:
    edit.to_input(node, "k", 1)


@_lift(11, "Pad")
def _pad_pads(edit: Editor, node: ir.Node) -> None:
    edit.to_input(node, "pads", 1)


@_lift(11, "Pad", typed=True)
def _pad_value(edit: Editor, node: ir.Node) -> None:
    _typed_input(edit, node, "value", 2)


@_lift(11, "Clip", typed=True)
def _clip_bounds(edit: Editor, node: ir.Node) -> None:
    _typed_input(edit, node, "min", 1)
    _typed_input(edit, node, "max", 2)


def _typed_input(edit: Editor, node: ir.Node, attribute: str, index: int) -> None:
    """Turn a float attribute into a scalar input of the type of the node's data."""
    if attribute in node.attributes:
        edit.to_input(node, attribute, index, _dtype(node, attribute), axis=False)


def _dtype(node: ir.Node, attribute: str) -> np.dtype[Any]:
    """Return the type of what the node reads first, which an attribute is to have as a tensor."""
    data = node.inputs[0]
    if data is None or data.dtype is None:
        raise UnsupportedError(
            f"Node {label(node)} ({node.op_type}) has the attribute '{attribute}', which newer "
            "opsets have as a tensor of the type of its first input, and that type is not known. "
            "Declare it in the model's value_info."
        )
    return data.dtype.numpy()


@_lift(11, "Resize")
def _resize_coordinates(edit: Editor, node: ir.Node) -> None:
    """Version 10 scaled coordinates without an offset, and rounded them towards the input."""
    scales = node.inputs[1]
    edit.set_input(node, 2, scales)
    node.replace_input_with(1, None)
    node.attributes.add(ir.AttrString("coordinate_transformation_mode", "asymmetric"))
    nearest = node.attributes.get_string("mode", "nearest") == "nearest"
    if nearest and "nearest_mode" not in node.attributes:
        node.attributes.add(ir.AttrString("nearest_mode", _round_towards_input(edit, node)))


def _round_towards_input(edit: Editor, node: ir.Node) -> str:
    """Return how to round: down where it enlarges, up where it shrinks.

    Where it does both, or may do so, another Resize before this one enlarges.
    """
    X, _, scales = node.inputs
    tensor = None if scales is None else known_tensor(scales)
    known = None if tensor is None else tensor.numpy()
    if known is not None and not (known < 1).any():
        return "floor"
    if known is None or (known > 1).any():
        one = edit.constant(node, "one", [1.0], np.float32)
        larger = edit.before(node, "Max", [scales, one])
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        node.replace_input_with(0, edit.before(node, "Resize", [X, None, larger], how))
        node.replace_input_with(2, edit.before(node, "Min", [scales, one]))
    return "ceil"


@_lift(11, "Scatter")
def _scatter_elements(edit: Editor, node: ir.Node) -> None:
    node.op_type = "ScatterElements"


@_lift(12, "Dropout")
def _dropout_ratio(edit: Editor, node: ir.Node) -> None:
    """The mask that nothing was dropped by was left open, now it is true; the ratio was fixed.

    ONNX Runtime 1.32 fills the old one with false.
    """
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        raise _unsupported(node, 11, "whose mask is read")
    edit.to_input(node, "ratio", 1, np.float32, axis=False)


@_lift(13, "Resize")
def _resize_half_pixels(edit: Editor, node: ir.Node) -> None:
    """Centres of pixels at whole numbers and a half were rounded; now half a pixel is taken off."""
    if node.attributes.get_string("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        return
    rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
    equal = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
    if node.attributes.get_string("mode", "nearest") != "nearest" or rounding not in equal:
        raise _unsupported(node, 12, "with tf_half_pixel_for_nn and this way to round")
    node.attributes["coordinate_transformation_mode"] = ir.AttrString(
        "coordinate_transformation_mode", "half_pixel"
    )
    node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", equal[rounding])


@_lift(13, "Squeeze", "Unsqueeze", "ReduceSum")
@_lift(18, *_REDUCTIONS)
def _axes(edit: Editor, node: ir.Node) -> None:
    edit.to_input(node, "axes", 1)


@_lift(13, "Split")
def _split_sizes(edit: Editor, node: ir.Node) -> None:
    edit.to_input(node, "split", 1)


@_lift(13, "Softmax", "LogSoftmax", "Hardmax", typed=True)
def _softmax_axis(edit: Editor, node: ir.Node) -> None:
    """It went over all axes from `axis` on at once, now it goes over one."""
    axis = node.attributes.get_int("axis", 1)
    data = node.inputs[0]
    assert data is not None
    if axis == -1 or (data.shape is not None and axis == len(data.shape) - 1):
        node.attributes["axis"] = ir.AttrInt64("axis", -1)
        return
    flat = edit.before(node, "Flatten", [data], {"axis": axis})
    result = edit.before(node, node.op_type, [flat], {"axis": -1})
    allowzero = 1 if edit.target >= 14 else None
    shape = edit.before(node, "Shape", [data])
    edit.become(node, "Reshape", [result, shape], allowzero=allowzero)


@_lift(14, "BatchNormalization")
def _batch_normalization_training(edit: Editor, node: ir.Node) -> None:
    """Training mode was to have more than one output; the last two have no successor."""
    if any(value.uses() or value.is_graph_output() for value in node.outputs[3:]):
        raise _unsupported(node, 13, "whose saved_mean or saved_var is read")
    training = any(value.name for value in node.outputs[1:])
    node.resize_outputs(min(len(node.outputs), 3 if training else 1))
    if training:
        node.attributes.add(ir.AttrInt64("training_mode", 1))


@_lift(16, "RoiAlign")
def _roi_align_coordinates(edit: Editor, node: ir.Node) -> None:
    node.attributes.add(ir.AttrString("coordinate_transformation_mode", "output_half_pixel"))


@_lift(18, "Split")
def _split_number(edit: Editor, node: ir.Node) -> None:
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes.add(ir.AttrInt64("num_outputs", len(node.outputs)))


@_lift(20, "DFT")
def _dft_axis(edit: Editor, node: ir.Node) -> None:
    axis = node.attributes.pop("axis", None)
    number = 1 if axis is None else axis.as_int()
    edit.set_input(node, 2, edit.constant(node, "axis", number))


@_lift(20, "GridSample")
def _grid_sample_modes(edit: Editor, node: ir.Node) -> None:
    mode = node.attributes.get_string("mode", "bilinear")
    names = {"bilinear": "linear", "bicubic": "cubic"}
    node.attributes["mode"] = ir.AttrString("mode", names.get(mode, mode))


@_lift(21, "GroupNormalization", typed=True)
def _group_normalization_channels(edit: Editor, node: ir.Node) -> None:
    """Scale and bias were given for each group, now they are for each channel."""
    data, *parameters = node.inputs
    assert data is not None
    groups = node.attributes["num_groups"].as_int()
    if data.shape is not None and data.shape[1] == groups:
        return
    if data.shape is not None and isinstance(data.shape[1], int):
        repeats = edit.constant(node, "repeats", [1, data.shape[1] // groups])
    else:
        channels = edit.before(node, "Shape", [data], {"start": 1, "end": 2})
        size = edit.before(node, "Div", [channels, edit.constant(node, "groups", [groups])])
        one = edit.constant(node, "one", [1])
        repeats = edit.before(node, "Concat", [one, size], {"axis": 0})
    column, row = edit.constant(node, "column", [-1, 1]), edit.constant(node, "row", [-1])
    for index, value in enumerate(parameters, start=1):
        repeated = edit.before(
            node, "Expand", [edit.before(node, "Reshape", [value, column]), repeats]
        )
        node.replace_input_with(index, edit.before(node, "Reshape", [repeated, row]))


def _unsupported(node: ir.Node, version: int, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"Node {label(node)} (ai.onnx@{version}::{node.op_type}) {what} has no equal in newer "
        f"opsets. Export the model with opset {version + 1} or newer."
    )

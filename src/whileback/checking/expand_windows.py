"""Expansions of convolutions and pools, for any number of spatial axes and sizes known or not.

Windows are read by gathering along each spatial axis with a matrix of indices, [output, kernel];
what a transposed convolution writes is added up by scattering with the same indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from whileback.checking.expansion import Expansion, UnknownRankError, float_attribute, known_rank
from whileback.graph.builder import Builder

__all__ = ["WINDOWS"]


@dataclass(frozen=True)
class _Axis:
    """A window along one spatial axis; `kernel`, `begin` and `end` (the padding) are INT64[1]."""

    axis: int
    stride: int
    dilation: int
    kernel: ir.Value
    begin: ir.Value
    end: ir.Value

    def reach(self, op: Builder) -> ir.Value:
        """From the first to the last element that a window reads."""
        return op.Mul(op.Sub(self.kernel, [1]), [self.dilation])

    def indices(self, op: Builder, count: ir.Value) -> ir.Value:
        """Where the windows read, [output, kernel]."""
        starts = op.Mul(op.arange(count), self.stride)
        offsets = op.Mul(op.arange(self.kernel), self.dilation)
        return op.Add(op.Unsqueeze(starts, [1]), offsets)


def _ints(node: ir.Node, name: str, count: int, default: int) -> list[int]:
    return list(node.attributes.get_ints(name, [default] * count))


def _axes(op: Builder, node: ir.Node, x: ir.Value, kernel: Sequence[ir.Value]) -> list[_Axis]:
    """Return the windows that a convolution or a pool slides over `x`."""
    count = len(kernel)
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET")
    strides, dilations = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    pads = _ints(node, "pads", 2 * count, 0)
    axes = []
    for i in range(count):
        begin, end = (op.constant([pad]) for pad in (pads[i], pads[count + i]))
        axis = _Axis(2 + i, strides[i], dilations[i], kernel[i], begin, end)
        axes.append(_same(op, x, axis, auto_pad) if auto_pad.startswith("SAME") else axis)
    return axes


def _same(op: Builder, x: ir.Value, axis: _Axis, auto_pad: str) -> _Axis:
    """Pad so that there is one window for each `stride` elements."""
    size, stride = op.dim(x, axis.axis), axis.stride
    count = op.Div(op.Add(size, [stride - 1]), [stride])
    needed = op.Add(op.Mul(op.Sub(count, [1]), [stride]), op.Add(axis.reach(op), [1]))
    begin, end = _halves(op, op.Max(op.Sub(needed, size), [0]), auto_pad == "SAME_UPPER")
    return _Axis(axis.axis, stride, axis.dilation, axis.kernel, begin, end)


def _halves(op: Builder, total: ir.Value, upper: bool) -> tuple[ir.Value, ir.Value]:
    """Split a padding in two; the second half is the larger one if `upper`."""
    small = op.Div(total, [2])
    large = op.Sub(total, small)
    return (small, large) if upper else (large, small)


def _padded(op: Builder, x: ir.Value, axes: Sequence[_Axis], value: float = 0.0) -> ir.Value:
    pads = op.Concat(*(a.begin for a in axes), *(a.end for a in axes), axis=0)
    return op.Pad(x, pads, value, [a.axis for a in axes])


def _unfold(op: Builder, padded: ir.Value, axes: Sequence[_Axis]) -> ir.Value:
    """Return what the windows read: [N, C, output, kernel, output, kernel, …]."""
    for axis in reversed(axes):
        room = op.Sub(op.dim(padded, axis.axis), axis.reach(op))
        count = op.Div(op.Add(room, [axis.stride - 1]), [axis.stride])
        padded = op.Gather(padded, axis.indices(op, count), axis=axis.axis)
    return padded


def _fold(
    op: Builder, windows: ir.Value, axes: Sequence[_Axis], sizes: Sequence[ir.Value]
) -> ir.Value:
    """Add up what windows write, [N, C, output, kernel, …], into axes of these sizes."""
    rank = 2 + 2 * len(axes)
    for axis, size in zip(axes, sizes, strict=True):
        windows = _fold_axis(op, windows, rank, axis, size)
        rank -= 1
    return windows


def _fold_axis(op: Builder, windows: ir.Value, rank: int, axis: _Axis, size: ir.Value) -> ir.Value:
    position = axis.axis
    others = [index for index in range(rank) if index not in (position, position + 1)]
    rows = op.Transpose(windows, perm=[position, position + 1, *others])
    rest = op.Shape(rows, start=2)
    indices = op.Reshape(axis.indices(op, op.dim(windows, position)), [-1, 1])
    zeros = op.Expand(op.constant(0.0), op.Concat(size, rest, axis=0))
    count = op.Mul(op.dim(rows, 0), op.dim(rows, 1))
    updates = op.Reshape(rows, op.Concat(count, rest, axis=0), allowzero=1)
    total = op.ScatterND(zeros, indices, updates, reduction="add")
    back = [*range(1, position + 1), 0, *range(position + 1, rank - 1)]
    return op.Transpose(total, perm=back)


def _letters(count: int) -> tuple[str, str, str]:
    """Return einsum letters: positions, kernel elements, and both in turn."""
    outputs, kernels = "abde"[:count], "ABDE"[:count]
    return outputs, kernels, "".join(o + k for o, k in zip(outputs, kernels, strict=True))


def _grouped(op: Builder, node: ir.Node, x: ir.Value, w: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Split the channels of the input and the first axis of the weight into groups."""
    groups = [node.attributes.get_int("group", 1)]
    channels, filters = op.Div(op.dim(x, 1), groups), op.Div(op.dim(w, 0), groups)
    x_shape = op.Concat(op.dim(x, 0), groups, channels, op.Shape(x, start=2), axis=0)
    w_shape = op.Concat(groups, filters, op.Shape(w, start=1), axis=0)
    return op.Reshape(x, x_shape, allowzero=1), op.Reshape(w, w_shape, allowzero=1)


def _merged(op: Builder, y: ir.Value) -> ir.Value:
    """Join groups and channels, [N, G, C, …] to [N, G·C, …]."""
    channels = op.Mul(op.dim(y, 1), op.dim(y, 2))
    shape = op.Concat(op.dim(y, 0), channels, op.Shape(y, start=3), axis=0)
    return op.Reshape(y, shape, allowzero=1)


def _biased(op: Builder, y: ir.Value, bias: ir.Value | None, spatial: int) -> Sequence[ir.Value]:
    if bias is None:
        return [y]
    return [op.Add(y, op.Unsqueeze(bias, list(range(1, 1 + spatial))))]


def _weight_kernel(op: Builder, w: ir.Value) -> list[ir.Value]:
    """Return the sizes of a convolution's kernel."""
    return [op.dim(w, axis) for axis in range(2, known_rank(w))]


def _pool_axes(op: Builder, node: ir.Node, x: ir.Value) -> list[_Axis]:
    kernel = [op.constant([size]) for size in node.attributes["kernel_shape"].as_ints()]
    return _axes(op, node, x, kernel)


def _conv(
    op: Builder, node: ir.Node, x: ir.Value, w: ir.Value, bias: ir.Value | None = None
) -> Sequence[ir.Value]:
    axes = _axes(op, node, x, _weight_kernel(op, w))
    windows = _unfold(op, _padded(op, x, axes), axes)
    outputs, kernels, both = _letters(len(axes))
    x, w = _grouped(op, node, windows, w)
    y = op.Einsum(x, w, equation=f"ngc{both},gmc{kernels}->ngm{outputs}")
    return _biased(op, _merged(op, y), bias, len(axes))


def _conv_transpose(
    op: Builder, node: ir.Node, x: ir.Value, w: ir.Value, bias: ir.Value | None = None
) -> Sequence[ir.Value]:
    axes = _axes(op, node, x, _weight_kernel(op, w))
    inputs, kernels, both = _letters(len(axes))
    groups, kernel = _grouped(op, node, x, w)
    windows = _merged(
        op, op.Einsum(groups, kernel, equation=f"ngc{inputs},gcm{kernels}->ngm{both}")
    )
    full = [_full(op, axis, op.dim(x, axis.axis)) for axis in axes]
    total = _fold(op, windows, axes, full)
    crops = [_crop(op, node, x, i, axes) for i in range(len(axes))]
    pads = op.Concat(*(begin for begin, _ in crops), *(end for _, end in crops), axis=0)
    return _biased(op, op.Pad(total, pads, None, [a.axis for a in axes]), bias, len(axes))


def _full(op: Builder, axis: _Axis, size: ir.Value) -> ir.Value:
    """Return how far a transposed convolution writes."""
    last = op.Mul(op.Sub(size, [1]), [axis.stride])
    return op.Add(op.Add(last, axis.reach(op)), [1])


def _crop(
    op: Builder, node: ir.Node, x: ir.Value, index: int, axes: Sequence[_Axis]
) -> tuple[ir.Value, ir.Value]:
    """Return what to add at the begin and at the end; as a rule, less than nothing."""
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET")
    shape = node.attributes.get_ints("output_shape", [])
    extra = _ints(node, "output_padding", index + 1, 0)[index]
    axis = axes[index]
    full = _full(op, axis, op.dim(x, axis.axis))
    longer = op.Add(full, [extra])
    if shape:
        wanted = op.constant([shape[index - len(axes)]])
    elif auto_pad.startswith("SAME"):
        # The specification has no Min here; ONNX Runtime never adds to what is written.
        wanted = op.Min(longer, op.Mul(op.dim(x, axis.axis), [axis.stride]))
    else:
        return op.Neg(axis.begin), op.Sub([extra], axis.end)
    surplus = op.Max(op.Sub(longer, wanted), [0])
    begin, _ = _halves(op, surplus, auto_pad == "SAME_UPPER")
    return op.Neg(begin), op.Add(op.Sub(wanted, full), begin)


def _stretched(op: Builder, node: ir.Node, padded: ir.Value, axes: Sequence[_Axis]) -> ir.Value:
    """In ceil mode, add zeros that complete the last window, if it starts before the padding."""
    if not node.attributes.get_int("ceil_mode", 0):
        return padded
    ends = []
    for axis in axes:
        size = op.dim(padded, axis.axis)
        room = op.Sub(op.Sub(size, axis.reach(op)), [1])
        windows = op.Add(op.Div(op.Add(room, [axis.stride - 1]), [axis.stride]), [1])
        before_end = op.Sub(size, axis.end)
        starting = op.Div(op.Add(before_end, [axis.stride - 1]), [axis.stride])
        last = op.Mul(op.Sub(op.Min(windows, starting), [1]), [axis.stride])
        ends.append(op.Sub(op.Add(op.Add(last, axis.reach(op)), [1]), size))
    pads = op.Concat([0] * len(axes), *ends, axis=0)
    return op.Pad(padded, pads, None, [a.axis for a in axes])


def _window_sums(
    op: Builder, node: ir.Node, x: ir.Value, axes: Sequence[_Axis], padding: float = 0.0
) -> ir.Value:
    windows = _unfold(op, _stretched(op, node, _padded(op, x, axes, padding), axes), axes)
    return op.ReduceSum(windows, [3 + 2 * i for i in range(len(axes))], keepdims=0)


def _average_pool(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    """The sum over a window, divided by how many elements it reads."""
    axes = _pool_axes(op, node, x)
    include = float(node.attributes.get_int("count_include_pad", 0))
    ones = op.Expand(op.constant(1.0), op.Concat([1, 1], op.Shape(x, start=2), axis=0))
    count = _window_sums(op, node, ones, axes, padding=include)
    return [op.Div(_window_sums(op, node, x, axes), count)]


def _lp_pool(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    power = float(node.attributes.get_int("p", 2))
    powers = op.Pow(op.Abs(x), power)
    total = _window_sums(op, node, powers, _pool_axes(op, node, x))
    return [op.Pow(total, 1 / power)]


def _global_average_pool(op: Builder, _: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    return [op.ReduceMean(x, list(range(2, known_rank(x))), keepdims=1)]


def _global_max_pool(op: Builder, _: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    return [op.ReduceMax(x, list(range(2, known_rank(x))), keepdims=1)]


def _global_lp_pool(op: Builder, node: ir.Node, x: ir.Value) -> Sequence[ir.Value]:
    power = float(node.attributes.get_int("p", 2))
    powers = op.Pow(op.Abs(x), power)
    total = op.ReduceSum(powers, list(range(2, known_rank(x))), keepdims=1)
    return [op.Pow(total, 1 / power)]


def _max_unpool(
    op: Builder, node: ir.Node, x: ir.Value, indices: ir.Value, shape: ir.Value | None = None
) -> Sequence[ir.Value]:
    """Write each element where its index says; indices count through the whole output."""
    if shape is None:
        axes = _pool_axes(op, node, x)
        sizes = [
            op.Sub(_full(op, axis, op.dim(x, axis.axis)), op.Add(axis.begin, axis.end))
            for axis in axes
        ]
        shape = op.Concat(op.Shape(x, start=0, end=2), *sizes, axis=0)
    zeros = op.Expand(op.constant(0.0), op.ReduceProd(shape, [0], keepdims=1))
    flat = op.ScatterElements(zeros, op.Reshape(indices, [-1]), op.Reshape(x, [-1]))
    return [op.Reshape(flat, shape)]


def _max_roi_pool(op: Builder, node: ir.Node, x: ir.Value, rois: ir.Value) -> Sequence[ir.Value]:
    """The largest element of each bin, rows first, then columns; 0 where a bin is empty."""
    images = op.Gather(x, op.Cast(op.Gather(rois, 0, axis=1), to=int(ir.DataType.INT64)))
    rows, columns = (_in_bins(op, node, rois, axis, op.dim(x, 2 + axis)) for axis in (0, 1))
    low = op.constant(-math.inf)
    parts = op.Where(op.Unsqueeze(rows, [1, 4]), op.Unsqueeze(images, [2]), low)
    tall = op.ReduceMax(parts, [3], keepdims=0)
    parts = op.Where(op.Unsqueeze(columns, [1, 2]), op.Unsqueeze(tall, [3]), low)
    largest = op.ReduceMax(parts, [4], keepdims=0)
    return [op.Where(op.Equal(largest, low), 0.0, largest)]


def _in_bins(op: Builder, node: ir.Node, rois: ir.Value, axis: int, size: ir.Value) -> ir.Value:
    """Tell which places along an axis belong to which bin, [roi, bin, place]."""
    count = node.attributes["pooled_shape"].as_ints()[axis]
    scale = float_attribute(node, "spatial_scale", 1.0)
    corners = (op.Mul(op.Gather(rois, [k], axis=1), scale) for k in (2 - axis, 4 - axis))
    start, last = (
        op.Where(op.Less(c, 0.0), op.Ceil(op.Sub(c, 0.5)), op.Floor(op.Add(c, 0.5)))
        for c in corners
    )
    width = op.Div(op.Max(op.Add(op.Sub(last, start), 1.0), 1.0), float(count))
    bins = op.constant([[float(k) for k in range(count + 1)]])
    edges = op.Mul(width, bins)
    begins = op.Add(start, op.Slice(op.Floor(edges), [0], [count], [1]))
    ends = op.Add(start, op.Slice(op.Ceil(edges), [1], [count + 1], [1]))
    places = op.Cast(op.arange(size), to=int(ir.DataType.DOUBLE))
    inside = op.GreaterOrEqual(places, op.Unsqueeze(begins, [2]))
    return op.And(inside, op.Less(places, op.Unsqueeze(ends, [2])))


def _col2im(
    op: Builder, node: ir.Node, x: ir.Value, image: ir.Value, block: ir.Value
) -> Sequence[ir.Value]:
    """Add up blocks, [N, C·kernel, output] to [N, C, image]."""
    count = _length(image)
    kernel = [op.Slice(block, [i], [i + 1]) for i in range(count)]
    axes = _axes(op, node, x, kernel)
    sizes = [
        op.Add(op.Slice(image, [i], [i + 1]), op.Add(a.begin, a.end)) for i, a in enumerate(axes)
    ]
    outputs = [
        op.Add(op.Div(op.Sub(op.Sub(size, axis.reach(op)), [1]), [axis.stride]), [1])
        for axis, size in zip(axes, sizes, strict=True)
    ]
    split = op.Reshape(x, op.Concat(op.dim(x, 0), [-1], *kernel, *outputs, axis=0))
    pairs = [axis for i in range(count) for axis in (2 + count + i, 2 + i)]
    total = _fold(op, op.Transpose(split, perm=[0, 1, *pairs]), axes, sizes)
    pads = op.Neg(op.Concat(*(a.begin for a in axes), *(a.end for a in axes), axis=0))
    return [op.Pad(total, pads, None, [a.axis for a in axes])]


def _length(value: ir.Value) -> int:
    if value.shape is None or not isinstance(value.shape[0], int):
        raise UnknownRankError
    return value.shape[0]


WINDOWS: dict[str, Expansion] = {
    "AveragePool": _average_pool,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global_average_pool,
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_max_pool,
    "LpPool": _lp_pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
}

"""The windows that convolutions and pools slide over images: kernel, stride, dilation, padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import product
from math import ceil, prod
from typing import Any

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator
from whileback.caffe2.operators.shapes import LARGEST_COUNT, known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import label
from whileback.graph.shapes import describe

__all__ = [
    "MOST_SLICES",
    "LegacyPad",
    "Window",
    "fold",
    "legacy_window",
    "padded",
    "per_axis",
    "plane_size",
    "plane_sizes",
    "plane_window",
    "unfold",
    "window_over",
]

MOST_SLICES = 4096


class LegacyPad(IntEnum):
    """What the argument `legacy_pad` holds."""

    NOTSET = 0
    VALID = 1
    SAME = 2
    CAFFE = 3


@dataclass(frozen=True)
class Window:
    """A sliding window, a number for each spatial axis.

    Attributes:
        kernel: how many elements it reads.
        strides: how far it moves.
        dilations: the distance between the elements that it reads.
        pads: at the begins of all axes, then at their ends.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]

    @property
    def axes(self) -> list[int]:
        """The axes of images in the order NCHW that it slides over."""
        return list(range(2, 2 + len(self.kernel)))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of ONNX's operators."""
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": self.pads,
        }


def per_axis(
    node: Operator, name: str, sides: str, count: int, default: int | None = None
) -> list[int]:
    """Return an argument that has a number for each axis, or for each end of each axis.

    It may be given as a list, in the plural; or as one number for all; or as a number for each
    side, which counts only if all sides are there.

    Args:
        node: the operator.
        name: the argument in the singular, such as "pad".
        sides: what is appended for the sides of a plane, such as "tlbr".
        count: how many numbers are needed.
        default: what each is without the argument.

    Raises: NetDefError if it is missing and has no default, or has another length.
    """
    args, named = node.args, [f"{name}_{side}" for side in sides]
    found = args.ints(f"{name}s", [])
    if not found and args.has(name):
        return [args.int(name)] * count
    if not found and all(args.has(side) for side in named):
        found = [args.int(side) for side in named]
    if not found:
        return [args.int(name, default)] * count
    if len(found) != count:
        raise NetDefError(
            f"{label(node.proto)} has '{name}s' {found}, where its input needs {count} numbers."
        )
    return found


def window_over(node: Operator, X: ir.Value) -> Window:
    """Return the window that an operator slides over images in the order NCHW.

    Raises: NetDefError if an argument is malformed.
    """
    count = known_rank(node, X) - 2
    if count < 1:
        raise NetDefError(
            f"{label(node.proto)} slides a window over images, but its input is {describe(X)}. "
            "Give it batch, channels, and at least one more axis."
        )
    window = Window(
        per_axis(node, "kernel", "hw", count),
        per_axis(node, "stride", "hw", count, 1),
        per_axis(node, "dilation", "hw", count, 1),
        per_axis(node, "pad", "tlbr", 2 * count, 0),
    )
    return _positive(node, window)


def plane_window(node: Operator) -> Window:
    """Return the window of Im2Col and Col2Im, where a side's argument goes before that for both.

    Raises: NetDefError if an argument is malformed.
    """

    def sides(name: str, default: int | None = None) -> list[int]:
        both = node.args.int(name, default) if node.args.has(name) else default
        return [node.args.int(f"{name}_{side}", both) for side in "hw"]

    pads = [node.args.int("pad", 0)] * 4
    window = Window(sides("kernel"), sides("stride", 1), sides("dilation", 1), pads)
    return _positive(node, window)


def _positive(node: Operator, window: Window) -> Window:
    numbers = [*window.kernel, *window.strides, *window.dilations]
    if min(numbers) < 1:
        raise NetDefError(
            f"{label(node.proto)} has kernel {window.kernel}, stride {window.strides} and "
            f"dilation {window.dilations}; all of them must be positive."
        )
    if max(*numbers, *window.pads) > LARGEST_COUNT:
        raise NetDefError(
            f"{label(node.proto)} has kernel {window.kernel}, stride {window.strides}, dilation "
            f"{window.dilations} and padding {window.pads}; the limit is {LARGEST_COUNT}."
        )
    if min(window.pads) < 0:
        raise UnsupportedError(
            f"its padding {window.pads} cuts off what is at the borders. Let a PadImage do that "
            "before it."
        )
    if prod(window.kernel) > LARGEST_COUNT:
        raise UnsupportedError(
            f"its kernel {window.kernel} has more than {LARGEST_COUNT} elements. Make it smaller."
        )
    return window


def legacy_window(node: Operator, X: ir.Value) -> Window:
    """Return the same, with the padding that `legacy_pad` says, if it says one.

    Raises: NetDefError if an argument is malformed, or needs sizes that are not known.
    """
    window, number = window_over(node, X), node.args.int("legacy_pad", 0)
    if number not in list(LegacyPad):
        raise NetDefError(f"{label(node.proto)} has legacy_pad {number}, not 0, 1, 2 or 3.")
    legacy = LegacyPad(number)
    if legacy in (LegacyPad.VALID, LegacyPad.SAME) and any(window.pads):
        raise NetDefError(
            f"{label(node.proto)} has legacy_pad {number}, which says the padding, and padding "
            f"{window.pads}. Remove one of them."
        )
    if legacy in (LegacyPad.NOTSET, LegacyPad.VALID):
        return window
    if set(window.dilations) != {1}:
        raise NetDefError(f"{label(node.proto)} has dilation, which legacy_pad does not allow.")
    sizes = plane_sizes(X, len(window.kernel))
    if sizes is None:
        raise NetDefError(
            f"{label(node.proto)} has legacy_pad, for which the height and the width of its "
            "images have to be known. Give them as numbers, with --input."
        )
    find = _same if legacy == LegacyPad.SAME else _caffe
    axes = zip(sizes, window.kernel, window.strides, window.pads, strict=False)
    begins, ends = zip(*(find(*axis) for axis in axes), strict=True)
    return replace(window, pads=[*begins, *ends])


def plane_sizes(X: ir.Value, count: int) -> list[int] | None:
    """Return the sizes of the last `count` axes, if they are known."""
    sizes = [] if X.shape is None else list(X.shape)[len(X.shape) - count :]
    known = [size for size in sizes if isinstance(size, int)]
    return known if len(known) == count else None


def plane_size(X: ir.Value, count: int) -> int:
    """Return the product of these sizes, or -1, as Reshape takes it."""
    sizes = plane_sizes(X, count)
    return -1 if sizes is None else prod(sizes)


def _same(size: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Return the padding with which there are size/stride windows, the larger half at the end."""
    total = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _caffe(size: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Return the padding of the old Caffe: its last window may reach beyond the end.

    It must begin before that, where there is padding.
    """
    windows = ceil((size + 2 * pad - kernel) / stride) + 1
    if pad > 0 and (windows - 1) * stride >= size + pad:
        windows -= 1
    return pad, max((windows - 1) * stride + kernel - size - pad, 0)


def padded(
    op: Emitter,
    X: ir.Value,
    pads: Sequence[int],
    axes: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> ir.Value:
    """Return X padded at the begins of some axes, and then at their ends; cut where negative.

    All axes are listed: when ONNX Runtime 1.32 moves a Transpose across a Pad, it mistakes the
    pads of a few axes for those of all.
    """
    count = len(X.shape or ())
    begins, ends = [0] * count, [0] * count
    for k, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[k], pads[k + len(axes)]
    return op.Pad(X, [*begins, *ends], value, mode=mode)


def unfold(op: Emitter, X: ir.Value, window: Window) -> ir.Value:
    """Return what each window reads, one slice of X for each of its elements.

    Shapes: X[N,C,H,W] → [N,C,kernel_h·kernel_w,windows_h,windows_w], for any number of axes.

    Raises: UnsupportedError if the window has more than MOST_SLICES elements.
    """
    if prod(window.kernel) > MOST_SLICES:
        raise UnsupportedError(
            f"the elements of its kernel {list(window.kernel)} are read one by one, so there may "
            f"be {MOST_SLICES} at most. Make it smaller."
        )
    whole = padded(op, X, window.pads, window.axes) if any(window.pads) else X
    reach = [
        dilation * (k - 1) for dilation, k in zip(window.dilations, window.kernel, strict=True)
    ]
    ends = op.Sub(op.Shape(whole, start=2), reach)
    slices = []
    for element in product(*map(range, window.kernel)):
        start = [dilation * k for dilation, k in zip(window.dilations, element, strict=True)]
        end = op.Add(ends, start)
        slices.append(op.Slice(whole, start, end, window.axes, list(window.strides)))
    return op.Concat(*(op.Unsqueeze(each, [2]) for each in slices), axis=2)


def fold(op: Emitter, columns: ir.Value, image: ir.Value, window: Window) -> ir.Value:
    """Add up what each window holds at the places it was read from: the transpose of `unfold`.

    Shapes: columns[N,C,kernel_h·kernel_w,windows_h,windows_w] or [N,C·…,windows_h,windows_w] →
        the shape of the image.
    """
    rows = op.Mul(op.dim(image, 1), prod(window.kernel))
    windows = plane_size(columns, len(window.kernel))
    flat = op.Reshape(columns, op.Concat([0], rows, [windows], axis=0))
    attributes = {name: each for name, each in window.attributes.items() if name != "kernel_shape"}
    found = op.Col2Im(flat, op.Shape(image, start=2), list(window.kernel), **attributes)
    found.shape = image.shape
    return found

"""Operators that give elements another shape, join, part, repeat and cut: their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator
from tests.caffe2.operators.running import refusal, run

from whileback.caffe2.reading import TensorSpec
from whileback.errors import NetDefError

Shape = tuple[int, ...]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape).astype(np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("op_type", "shape", "others", "args"),
    [
        ("ResizeLike", (2, 6), {"like": values(3, 4)}, {}),
        ("Flatten", (2, 3, 2), {}, {"axis": 2}),
        ("FlattenToVec", (2, 3), {}, {}),
        ("MergeDim", (2, 3, 2), {}, {}),
        ("PrependDim", (4, 3), {}, {"dim_size": 2}),
        ("ExpandDims", (2, 3), {}, {"dims": [2, 0]}),
        ("Squeeze", (1, 2, 1), {}, {"dims": [2, 0]}),
        ("Tile", (2, 3), {}, {"tiles": 2, "axis": -1}),
        ("Tile", (2, 3), {"tiles": np.int32([2]), "axis": np.int32([0])}, {}),
        ("NumpyTile", (2, 3), {"repeats": ints(3, 2)}, {}),
        ("Expand", (2, 1), {"shape": ints(2, 3)}, {}),
        ("Expand", (2, 1), {"shape": ints(4, 1, -1)}, {}),
        ("Slice", (2, 5), {}, {"starts": [0, 1], "ends": [-1, -2]}),
        ("Slice", (2, 5), {"starts": ints(0, -3), "ends": ints(-1, 9)}, {}),
    ],
)
def test_gradients(op_type: str, shape: Shape, others: dict[str, Any], args: Any) -> None:
    op = operator(op_type, ["x", *others], ["y"], **args)
    check_maker(op, {"x": values(*shape), **others}, ["x"])


def test_reshape() -> None:
    feeds = {"x": values(2, 3, 2)}
    check_maker(operator("Reshape", ["x"], ["y", "old"], shape=[0, -1]), feeds, ["x"], ["y"])
    given = {**feeds, "shape": ints(4, 3)}
    check_maker(operator("Reshape", [*given], ["y", "old"]), given, ["x"], ["y"])


@pytest.mark.parametrize(
    ("shapes", "args"),
    [
        ([(2, 3), (2, 1)], {"axis": 1}),
        ([(2, 3), (2, 3)], {"axis": -1, "add_axis": 1}),
        ([(2, 1, 1, 3), (2, 1, 1, 2)], {"order": "NHWC"}),
        ([(2, 3)], {"axis": 0}),
    ],
)
def test_concat(shapes: list[Shape], args: dict[str, Any]) -> None:
    feeds = {f"x{k}": values(*shape) for k, shape in enumerate(shapes)}
    check_maker(operator("Concat", [*feeds], ["y", "sizes"], **args), feeds, [*feeds], ["y"])


@pytest.mark.parametrize(
    ("op_type", "shape", "others", "args"),
    [
        ("Split", (2, 6), {}, {"axis": 1}),
        ("Split", (6, 2), {}, {"axis": 0, "split": [1, 2, 3]}),
        ("Split", (2, 6), {"sizes": np.int32([1, 2, 3])}, {"axis": 1}),
        ("Split", (2, 3), {}, {"axis": 1, "add_axis": 1}),
        ("DepthSplit", (2, 1, 1, 3), {"sizes": np.int32([1, 1, 1])}, {"order": "NHWC"}),
        ("SplitByLengths", (6, 2), {"lengths": np.int32([1, 0, 2, 1, 1, 1])}, {"axis": 0}),
    ],
)
@pytest.mark.parametrize("of", [["a", "b", "c"], ["b"]])
def test_split(op_type: str, shape: Shape, others: Any, args: Any, of: list[str]) -> None:
    op = operator(op_type, ["x", *others], ["a", "b", "c"], **args)
    check_maker(op, {"x": values(*shape), **others}, ["x"], of)


def test_pieces_that_differ_along_another_axis() -> None:
    op = operator("Concat", ["a", "b"], ["y", "sizes"], axis=1)
    assert refusal(op, {"a": values(2, 3), "b": values(4, 3)}) == (
        "Concat (writes 'y') joins along axis 1, so its inputs must be alike along axis 0, but "
        "have the sizes [2, 4]."
    )


def test_concat_without_its_sizes_has_no_gradient() -> None:
    with pytest.raises(NetDefError) as info:
        differentiated(operator("Concat", ["a", "b"], ["y"], axis=0), ["dy"])
    assert str(info.value) == (
        "Concat (writes 'y') has no second output, the sizes, which its gradient needs. Add one."
    )


@pytest.mark.parametrize(
    ("op_type", "args", "said"),
    [
        (
            "Reshape",
            {"shape": [5, -1]},
            "cannot give 24 elements of shape [2, 3, 4] the shape [5, -1].",
        ),
        (
            "Reshape",
            {"shape": [2, 3, 4, 0]},
            "cannot give 24 elements of shape [2, 3, 4] the shape [2, 3, 4, 0].",
        ),
        ("Flatten", {"axis": 4}, "has axis 4 for a tensor of rank 3."),
        (
            "PrependDim",
            {"dim_size": 3},
            "cannot divide 2 elements along the first axis by 'dim_size' 3.",
        ),
        ("Shape", {"axes": [3]}, "has axis 3 for a tensor of rank 3."),
        ("Concat", {"axis": 3}, "has axis 3 for a tensor of rank 3."),
        ("Concat", {"order": "NWHC"}, "has order 'NWHC', not 'NCHW' or 'NHWC'."),
        ("Tile", {"tiles": 2, "axis": 3}, "has axis 3 for a tensor of rank 3."),
        ("Tile", {"tiles": -1, "axis": 0}, "has a negative dimension in shape [-2, 3, 4]."),
        ("TileGradient", {"tiles": 0, "axis": 0}, "has 'tiles' 0; it must be 1 or more."),
    ],
)
def test_what_does_not_fit(op_type: str, args: dict[str, Any], said: str) -> None:
    count = 2 if op_type in ("Concat", "Reshape") else 1
    op = operator(op_type, ["x"], ["y", "other"][:count], **args)
    assert refusal(op, {"x": values(2, 3, 4)}) == f"{op_type} (writes 'y') {said}"


def test_absurd_sizes_are_refused_before_anything_is_made() -> None:
    said = (
        f"would make {24 * 2**31} elements, shape [{2**32}, 3, 4]; the limit is {2**31}. "
        "Correct the shape, or give the blob as an input."
    )
    tile = operator("Tile", ["x"], ["y"], tiles=2**31, axis=0)
    assert refusal(tile, {"x": values(2, 3, 4)}) == f"Tile (writes 'y') {said}"


@pytest.mark.parametrize(
    ("op_type", "inputs", "given", "shape"),
    [
        ("Expand", ["x", "s"], [2**20, 2**20], [2**20, 2**20]),
        ("NumpyTile", ["x", "s"], [2**20, 2**20], [2**20, 2**20]),
        ("OneHot", ["n", "s"], [2**40], [3, 2**40]),
        ("ConstantFill", ["s"], [2**20, 2**20], [2**20, 2**20]),
        ("Range", ["s"], [2**40], [2**40]),
    ],
)
def test_absurd_sizes_from_a_blob(
    op_type: str, inputs: list[str], given: list[int], shape: list[int]
) -> None:
    fill = operator("GivenTensorInt64Fill", [], ["s"], shape=[len(given)], values=given)
    op = operator(op_type, inputs, ["y"], input_as_shape=1)
    feeds = {"x": values(1, 1), "n": ints(0, 1, 2)}
    count = math.prod(shape)
    assert refusal([fill, op], feeds) == (
        f"{op_type} (writes 'y') would make {count} elements, shape {shape}; "
        f"the limit is {2**31}. Correct the shape, or give the blob as an input."
    )


def test_a_range_without_a_step() -> None:
    fills = [
        operator("GivenTensorIntFill", [], [name], shape=[1], values=[number])
        for name, number in (("start", 1), ("stop", 5), ("step", 0))
    ]
    assert refusal([*fills, operator("Range", ["start", "stop", "step"], ["y"])], {}) == (
        "Range (writes 'y') has step 0, which never reaches the stop."
    )


def test_pieces_that_do_not_fit() -> None:
    x = {"x": values(2, 7)}
    assert refusal(operator("Split", ["x"], ["a", "b"], axis=1), x) == (
        "Split (writes 'a') has 2 outputs, among which 7 elements along axis 1 cannot be divided "
        "equally. Give their sizes as 'split'."
    )
    assert refusal(operator("Split", ["x"], ["a", "b"], axis=1, split=[3, 3]), x) == (
        "Split (writes 'a') has 'split' [3, 3], but 2 outputs for 7 elements along axis 1."
    )


def test_another_number_of_elements() -> None:
    assert refusal(operator("ResizeLike", ["x", "z"], ["y"]), {"x": values(2), "z": values(3)}) == (
        "ResizeLike (writes 'y') cannot give FLOAT[2] the shape of FLOAT[3]."
    )


def test_too_few_repetitions() -> None:
    said = "NumpyTile (writes 'y') needs a number for each axis of FLOAT[2,3], but has 1."
    assert (
        refusal(operator("NumpyTile", ["x", "r"], ["y"]), {"x": values(2, 3), "r": ints(2)}) == said
    )


def test_a_shape_from_two_places() -> None:
    op = operator("Reshape", ["x", "s"], ["y", "old"], shape=[2])
    assert refusal(op, {"x": values(2), "s": ints(2)}) == (
        "Reshape (writes 'y') has the argument 'shape' and the shape as input 's'. Drop one."
    )


@pytest.mark.parametrize(
    ("op_type", "args"),
    [("MergeDim", {}), ("PrependDim", {"dim_size": 2}), ("Tile", {"tiles": 2, "axis": 0})],
)
def test_an_unknown_rank_that_is_needed(op_type: str, args: dict[str, Any]) -> None:
    op = operator(op_type, ["x"], ["y"], **args)
    assert refusal(op, {"x": TensorSpec(ir.DataType.FLOAT, None)}) == (
        f"{op_type} (writes 'y') needs the rank of blob 'x', which is not known. "
        "Give its shape with --input x=…"
    )


@pytest.mark.parametrize(
    ("op_type", "outputs", "args", "shape"),
    [
        ("Reshape", 2, {"shape": [0, -1]}, (2, 12)),
        ("MergeDim", 1, {}, (6, 4)),
        ("PrependDim", 1, {"dim_size": 2}, (2, 1, 3, 4)),
        ("Split", 2, {"axis": 0}, (1, 3, 4)),
        ("Slice", 1, {"starts": [1, 0, -3], "ends": [9, -1, -2]}, (1, 3, 1)),
        ("Tile", 1, {"tiles": 2, "axis": -2}, (2, 6, 4)),
    ],
)
def test_sizes_that_only_the_run_knows(op_type: str, outputs: int, args: Any, shape: Shape) -> None:
    op = operator(op_type, ["x"], [f"y{k}" for k in range(outputs)], **args)
    x = {"x": values(2, 3, 4)}
    found = run(op, x, {"x": TensorSpec(ir.DataType.FLOAT, ["A", "B", "C"])})
    assert found[0].shape == shape
    for one, other in zip(found, run(op, x), strict=True):
        np.testing.assert_array_equal(one, other)

"""Reductions and selections: their gradients against differences, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import check_maker, operator
from tests.caffe2.operators.running import refusal, run

from whileback.caffe2.reading import TensorSpec

Shape = tuple[int, ...]
ENDS = [f"Reduce{end}{kind}" for end in ("Front", "Back") for kind in ("Sum", "Mean", "Max")]
AXES = [f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "L1", "L2")]


def distinct(*shape: int) -> np.ndarray:
    """Numbers of which no two are near each other or 0."""
    numbers = np.random.default_rng(4).permutation(int(np.prod(shape)))
    return (numbers / 4 - 0.9).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("op_type", ENDS)
def test_ends(op_type: str, count: int) -> None:
    op = operator(op_type, ["x"], ["y"], num_reduce_dim=count)
    check_maker(op, {"x": distinct(2, 3, 2)}, ["x"])


@pytest.mark.parametrize("op_type", ENDS)
def test_lengths(op_type: str) -> None:
    feeds = {"x": distinct(3, 3), "lengths": np.int32([1, 3, 2])}
    check_maker(operator(op_type, [*feeds], ["y"]), feeds, ["x"])


@pytest.mark.parametrize("kind", ["Sum", "Mean"])
@pytest.mark.parametrize("end", ["Front", "Back"])
def test_the_sum_and_the_mean_of_nothing_are_zero(end: str, kind: str) -> None:
    feeds = {"x": distinct(2, 2), "lengths": np.int32([0, 2])}
    op = operator(f"Reduce{end}{kind}", [*feeds], ["y"])
    assert run(op, feeds)[0][0] == 0
    check_maker(op, feeds, ["x"])


@pytest.mark.parametrize(
    "args", [{}, {"axes": [1]}, {"axes": [0, -1], "keepdims": 0}, {"keepdims": 0}]
)
@pytest.mark.parametrize("op_type", AXES)
def test_axes(op_type: str, args: dict[str, Any]) -> None:
    check_maker(operator(op_type, ["x"], ["y"], **args), {"x": distinct(2, 3, 2)}, ["x"])


def test_a_norm_of_zeros_is_level() -> None:
    feeds = {"x": np.zeros((2, 2), np.float32), "y": np.float32([[0]]), "dy": np.float32([[3]])}
    (dx,) = run(operator("ReduceL2Gradient", ["dy", "x", "y"], ["dx"]), feeds)
    np.testing.assert_array_equal(dx, feeds["x"])


@pytest.mark.parametrize("op_type", ["ColwiseMax", "RowwiseMax"])
def test_matrices(op_type: str) -> None:
    check_maker(operator(op_type, ["x"], ["y"]), {"x": distinct(2, 3, 2)}, ["x"])


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 2)])
def test_rows(shape: Shape) -> None:
    check_maker(operator("ReduceTailSum", ["x"], ["y"]), {"x": distinct(*shape)}, ["x"])
    feeds = {"x": distinct(*shape), "w": distinct(2)}
    check_maker(operator("ReduceFrontWeightedSum", [*feeds], ["y"]), feeds, ["x", "w"])


@pytest.mark.parametrize(
    ("shape", "args"), [((2, 5), {"k": 2}), ((3, 2), {"k": 2, "axis": 0}), ((2, 3), {"k": 4})]
)
def test_top_k(shape: Shape, args: dict[str, Any]) -> None:
    op = operator("TopK", ["x"], ["y", "places"], **args)
    check_maker(op, {"x": distinct(*shape)}, ["x"], ["y"])


def test_top_k_of_an_input() -> None:
    feeds = {"x": distinct(2, 4), "k": np.array([2])}
    check_maker(operator("TopK", [*feeds], ["y", "places"]), feeds, ["x"], ["y"])


def test_flexible_top_k() -> None:
    feeds = {"x": distinct(2, 4), "k": np.array([1, 3])}
    check_maker(operator("FlexibleTopK", [*feeds], ["y", "places"]), feeds, ["x"], ["y"])


@pytest.mark.parametrize(
    ("op_type", "args", "said"),
    [
        ("ReduceFrontSum", {"num_reduce_dim": 3}, "has 'num_reduce_dim' 3 for a tensor of rank 2."),
        ("ColwiseMax", {}, "needs a tensor of rank 3, not 2."),
        ("TopK", {"k": 0}, "has 'k' 0; it must be 1 or more."),
        (
            "Bucketize",
            {"boundaries": [2.0, 1.0]},
            "needs ascending numbers as 'boundaries', not [2.0, 1.0].",
        ),
    ],
)
def test_what_does_not_fit(op_type: str, args: dict[str, Any], said: str) -> None:
    op = operator(op_type, ["x"], ["y", "places"][: 1 + (op_type == "TopK")], **args)
    assert refusal(op, {"x": distinct(2, 3)}) == f"{op_type} (writes 'y') {said}"


def test_lengths_and_several_axes() -> None:
    feeds = {"x": distinct(2, 3), "lengths": np.int32([1])}
    assert refusal(operator("ReduceFrontSum", [*feeds], ["y"], num_reduce_dim=2), feeds) == (
        "ReduceFrontSum (writes 'y') has lengths, so it can reduce one axis, not 2. "
        "Remove 'num_reduce_dim'."
    )


def test_an_unknown_rank_that_is_needed() -> None:
    op = operator("ReduceBackSum", ["x"], ["y"])
    assert refusal(op, {"x": TensorSpec(ir.DataType.FLOAT, None)}) == (
        "ReduceBackSum (writes 'y') needs the rank of blob 'x', which is not known. "
        "Give its shape with --input x=…"
    )


@pytest.mark.parametrize(
    ("op_type", "args"),
    [(op_type, {}) for op_type in ENDS] + [("TopK", {"k": 5}), ("ArgMax", {"axis": 0})],
)
def test_sizes_that_only_the_run_knows(op_type: str, args: dict[str, Any]) -> None:
    op = operator(op_type, ["x"], ["y", "z"][: 1 + (op_type == "TopK")], **args)
    x = {"x": distinct(3, 4)}
    found = run(op, x, {"x": TensorSpec(ir.DataType.FLOAT, ["A", "B"])})
    for one, other in zip(found, run(op, x), strict=True):
        np.testing.assert_array_equal(one, other)

"""Fills: what does not fit, and what would be too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import operator
from tests.caffe2.operators.running import refusal, run

from whileback.caffe2.operators.shapes import MOST_ELEMENTS
from whileback.caffe2.reading import TensorSpec
from whileback.formats.caffe2.caffe2_pb2 import TensorProto

X = {"x": np.zeros((2, 2), np.float32)}
HUGE = [2**20, 2**20]


def fill(op_type: str = "ConstantFill", inputs: Any = (), **args: Any) -> Any:
    return operator(op_type, list(inputs), ["y"], **args)


def test_a_dtype_that_is_none() -> None:
    assert refusal(fill(shape=[2], dtype=99), {}).startswith(
        "ConstantFill (writes 'y'): there is no tensor of data type 99; there are FLOAT (1), "
    )


def test_a_value_that_the_type_cannot_hold() -> None:
    said = "ConstantFill (writes 'y') has the value 300, which no uint8 can be."
    assert refusal(fill(shape=[2], value=300, dtype=TensorProto.UINT8), {}) == said


def test_a_value_of_another_kind() -> None:
    said = "ConstantFill (writes 'y'): its argument 'value' must hold an integer."
    assert refusal(fill(shape=[2], value=3.5, dtype=TensorProto.INT32), {}) == said


def test_shapes_from_two_places() -> None:
    assert refusal(fill(inputs="x", shape=[2]), X) == (
        "ConstantFill (writes 'y') has the argument 'shape', but takes the shape from its input."
    )
    assert refusal(fill(shape=[2], extra_shape=[3]), {}) == (
        "ConstantFill (writes 'y') has the argument 'extra_shape', but has no input whose shape it "
        "could extend."
    )


def test_an_input_that_is_no_shape() -> None:
    assert refusal(fill(inputs="x", input_as_shape=1), X) == (
        "ConstantFill (writes 'y') needs a shape in blob 'x': integers in a tensor of rank 1, not "
        "FLOAT[2,2]."
    )


@pytest.mark.parametrize("shape", [[2, -1], [-3]])
def test_negative_sizes(shape: list[int]) -> None:
    said = f"ConstantFill (writes 'y') has a negative dimension in shape {shape}."
    assert refusal(fill(shape=shape), {}) == said


@pytest.mark.parametrize(
    "op_type",
    [
        "ConstantFill",
        "DiagonalFill",
        "Float16ConstantFill",
        "Float16UniformFill",
        "GaussianFill",
        "GivenTensorFill",
        "MSRAFill",
        "RangeFill",
        "UniformFill",
        "UniformIntFill",
        "XavierFill",
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_made(op_type: str) -> None:
    assert refusal(fill(op_type, shape=HUGE, values=[1.0]), {}) == (
        f"{op_type} (writes 'y') would make {2**40} elements, shape {HUGE}; the limit is "
        f"{MOST_ELEMENTS}. Correct the shape, or give the blob as an input."
    )


def test_values_that_are_too_few() -> None:
    assert refusal(fill("GivenTensorFill", shape=[2, 2], values=[1.0, 2.0]), {}) == (
        "GivenTensorFill (writes 'y') has 2 'values' for the shape [2, 2], which takes 4."
    )


def test_a_diagonal_of_one_axis() -> None:
    said = "DiagonalFill (writes 'y') needs two axes, but makes FLOAT[3]."
    assert refusal(fill("DiagonalFill", shape=[3]), {}) == said


def test_a_shape_that_only_the_run_knows() -> None:
    given = {"s": TensorSpec(ir.DataType.INT64, [2])}
    op = fill(inputs="s", input_as_shape=1, value=2.0, extra_shape=[1])
    (y,) = run(op, {"s": np.array([2, 3])}, given)
    np.testing.assert_array_equal(y, np.full((2, 3, 1), 2, np.float32))

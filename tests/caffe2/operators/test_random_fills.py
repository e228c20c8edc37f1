"""Random fills: their moments and their seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.caffe2.operators.makers import operator
from tests.caffe2.operators.running import refusal, run

from whileback import compile
from whileback.caffe2.reading import TensorSpec, read
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

MANY = [200, 300]


def fill(op_type: str, inputs: Any = (), seed: int | None = None, **args: Any) -> OperatorDef:
    op = operator(op_type, list(inputs), ["y"], **args)
    if seed is not None:
        op.device_option.random_seed = seed
    return op


def drawn(op: OperatorDef, **feeds: np.ndarray) -> np.ndarray:
    (y,) = run(op, feeds)
    return y


@pytest.mark.parametrize(
    ("op", "mean", "deviation", "low", "high"),
    [
        (fill("UniformFill", shape=MANY, min=-2.0, max=3.0), 0.5, 5 / 12**0.5, -2, 3),
        (fill("UniformFill", shape=MANY), 0.5, 1 / 12**0.5, 0, 1),
        (fill("Float16UniformFill", shape=MANY, min=1.0, max=2.0), 1.5, 1 / 12**0.5, 1, 2),
        (fill("UniformIntFill", shape=MANY, min=-3, max=4), 0.5, (63 / 12) ** 0.5, -3, 4),
        (fill("GaussianFill", shape=MANY, mean=1.0, std=2.0), 1, 2, -12, 14),
        (fill("XavierFill", shape=[200, 3, 100]), 0, 300**-0.5, -0.1, 0.1),
        (fill("MSRAFill", shape=[200, 3, 100]), 0, (2 / 20000) ** 0.5, -0.1, 0.1),
    ],
)
def test_moments(op: OperatorDef, mean: float, deviation: float, low: float, high: float) -> None:
    y = drawn(op).astype(np.float64)
    assert abs(y.mean() - mean) < 5 * deviation / y.size**0.5
    assert abs(y.std() / deviation - 1) < 0.03
    assert y.min() >= low and y.max() <= high


def test_all_integers_are_as_likely() -> None:
    y = drawn(fill("UniformIntFill", shape=MANY, min=5, max=8))
    assert y.dtype == np.int32
    numbers, counts = np.unique(y, return_counts=True)
    assert list(numbers) == [5, 6, 7, 8]
    assert np.all(abs(counts / y.size - 0.25) < 0.02)


def test_limits_from_inputs() -> None:
    limits = {"low": np.float32([5]), "high": np.float32([6])}
    y = drawn(fill("UniformFill", ["s", *limits], input_as_shape=1), s=np.array([500]), **limits)
    assert y.shape == (500,) and 5 <= y.min() < 5.1 and 5.9 < y.max() <= 6


def test_integer_limits_from_inputs() -> None:
    limits = {"low": np.int32([5]), "high": np.int32([7])}
    y = drawn(fill("UniformIntFill", ["x", *limits]), x=np.zeros((9, 50), np.float32), **limits)
    assert y.shape == (9, 50) and set(y.ravel()) == {5, 6, 7}


@pytest.mark.parametrize("op_type", ["XavierFill", "MSRAFill", "GaussianFill", "UniformFill"])
def test_a_shape_that_only_the_run_knows(op_type: str) -> None:
    op = fill(op_type, "s", input_as_shape=1)
    (y,) = run(op, {"s": np.array([30, 40])}, {"s": TensorSpec(ir.DataType.INT64, [2])})
    wanted = {"XavierFill": 40**-0.5, "MSRAFill": (2 / 30) ** 0.5, "UniformFill": 12**-0.5}
    assert y.shape == (30, 40)
    assert abs(y.std() / wanted.get(op_type, 1) - 1) < 0.2


@pytest.mark.parametrize("op_type", ["UniformFill", "GaussianFill", "XavierFill", "MSRAFill"])
def test_a_seed_repeats_the_numbers(op_type: str) -> None:
    first, again, other = (drawn(fill(op_type, shape=[4, 5], seed=s)) for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_two_fills_of_a_net_differ() -> None:
    ops = [operator("GaussianFill", [], [name], shape=[100]) for name in "yz"]
    reading = read(NetDef(name="net", op=ops), {})
    y, z = compile(reading.model)({}).values()
    assert len(np.unique(np.concatenate([y, z]))) == 200


def test_no_deviation() -> None:
    y = drawn(fill("GaussianFill", shape=[3], mean=2.0, std=0.0))
    np.testing.assert_array_equal(y, np.float32([2, 2, 2]))


def test_different_integers() -> None:
    y = drawn(fill("UniqueUniformFill", shape=[2, 3], min=3, max=9))
    assert y.dtype == np.int32 and y.shape == (2, 3)
    assert len(set(y.ravel())) == 6 and y.min() >= 3 and y.max() <= 9


def test_different_integers_without_some() -> None:
    feeds = {"s": np.array([3]), "avoided": np.int32([4, 5, 20, -1])}
    y = drawn(fill("UniqueUniformFill", list(feeds), min=3, max=7, input_as_shape=1), **feeds)
    assert sorted(y) == [3, 6, 7]


def test_what_is_refused() -> None:
    assert refusal(fill("UniformFill", shape=[2], min=2.0, max=1.0), {}) == (
        "UniformFill (writes 'y') has 'min' 2.0 and 'max' 1.0; the first must be smaller, and both "
        "must be finite."
    )
    assert refusal(fill("GaussianFill", shape=[2], std=-1.0), {}) == (
        "GaussianFill (writes 'y') has 'std' -1.0; it must be 0 or more."
    )
    assert refusal(fill("XavierFill", shape=[]), {}) == (
        "XavierFill (writes 'y') needs an axis 0, but has the shape []."
    )
    assert refusal(fill("MSRAFill", shape=[3]), {}) == (
        "MSRAFill (writes 'y') needs an axis 1, but has the shape [3]."
    )
    assert refusal(fill("UniqueUniformFill", shape=[4], min=0, max=2), {}) == (
        "UniqueUniformFill (writes 'y') cannot choose 4 among 3 numbers; the limits are 1 and "
        "2147483648. Correct 'min' and 'max', or give the blob as an input."
    )

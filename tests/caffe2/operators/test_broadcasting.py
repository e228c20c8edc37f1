"""Operators of two tensors: gradients against differences, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import NetDefError
from whileback.formats.caffe2.caffe2_pb2 import NetDef

LAYOUTS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3), (2, 3), {}),
    ((2, 3), (2, 3), {"broadcast": 1}),
    ((2, 3), (3,), {"broadcast": 1}),
    ((2, 3), (2,), {"broadcast": 1, "axis": 0}),
    ((2, 3), (2, 1), {"broadcast": 1}),
    ((2, 3), (1,), {"broadcast": 1, "axis": 0}),
    ((2, 3, 2), (3,), {"broadcast": 1, "axis": 1}),
    ((1, 2, 2, 3), (3,), {"broadcast": 1, "axis_str": "C", "order": "NHWC"}),
]
BOTH_WAYS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((3,), (2, 3), {}),
    ((3, 1), (1, 2), {}),
    ((), (2,), {}),
]


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 2, shape).astype(np.float32)


@pytest.mark.parametrize(("a", "b", "args"), LAYOUTS + BOTH_WAYS)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic(op_type: str, a: Any, b: Any, args: dict[str, Any]) -> None:
    feeds = {"a": values(a, 1), "b": values(b, 2)}
    check_maker(operator(op_type, ["a", "b"], ["c"], **args), feeds, ["a", "b"])


@pytest.mark.parametrize(("a", "b", "args"), LAYOUTS)
def test_powers(a: Any, b: Any, args: dict[str, Any]) -> None:
    feeds = {"x": values(a, 1), "e": values(b, 2)}
    check_maker(operator("Pow", ["x", "e"], ["y"], **args), feeds, ["x", "e"])


def test_powers_of_negative_numbers_and_zero() -> None:
    feeds = {"x": np.float32([-2, -0.5, 0, 0, 1.5]), "e": np.float32([2, 3, 2, 1, 0])}
    check_maker(operator("Pow", ["x", "e"], ["y"]), feeds, ["x"])


def test_exponents_of_zero() -> None:
    feeds = {"x": np.float32([0, 0, 2]), "e": np.float32([2, 0.5, 0])}
    check_maker(operator("Pow", ["x", "e"], ["y"]), feeds, ["e"])


def test_zero_to_the_power_of_zero_is_level() -> None:
    feeds = {"x": np.float32([0, 3]), "e": np.float32([0, 0])}
    check_maker(operator("Pow", ["x", "e"], ["y"]), feeds, ["x"])


@pytest.mark.parametrize(("a", "b", "args"), LAYOUTS)
def test_sum_reduce_like(a: Any, b: Any, args: dict[str, Any]) -> None:
    feeds = {"a": values(a, 1), "b": values(b, 2)}
    check_maker(operator("SumReduceLike", ["a", "b"], ["c"], **args), feeds, ["a"])


def refusal(a: tuple[int, ...] | None, b: tuple[int, ...] | None, **args: Any) -> str:
    """What is said to a sum of two tensors."""
    net = NetDef(name="net", op=[operator("Add", ["a", "b"], ["c"], **args)])
    dtype = TensorSpec.of(np.float32(0)).dtype
    with pytest.raises(NetDefError) as info:
        read(net, {"a": TensorSpec(dtype, a), "b": TensorSpec(dtype, b)})
    return str(info.value)


def test_an_axis_too_far_back() -> None:
    assert refusal((2, 3), (3,), broadcast=1, axis=2) == (
        "Add (writes 'c') lays a tensor of rank 1 along the axes from 2 on of one of rank 2. "
        "Its argument 'axis' must be from 0 to 1."
    )


def test_too_many_axes() -> None:
    assert refusal((3,), (2, 3), broadcast=1, axis=0) == (
        "Add (writes 'c') lays a tensor of rank 2 along one of rank 1. "
        "Swap them, or leave out the argument 'broadcast'."
    )


def test_a_letter_that_is_no_axis() -> None:
    assert refusal((2, 3), (3,), broadcast=1, axis_str="D") == (
        "Add (writes 'c') has axis_str 'D', which is no letter of order 'NCHW'."
    )


def test_an_unknown_rank() -> None:
    assert "needs the rank of blob 'a', which is not known." in refusal(
        None, (3,), broadcast=1, axis=1
    )

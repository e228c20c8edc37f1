"""Operators that are there for the gradient's sake."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator

from whileback.caffe2.operators.registry import no_gradient


@pytest.mark.parametrize("op_type", ["StopGradient", "ZeroGradient", "Print", "EnforceFinite"])
def test_where_no_gradient_flows(op_type: str) -> None:
    assert op_type in no_gradient


def test_negate_gradient() -> None:
    net, found = differentiated(operator("NegateGradient", ["x"], ["y"]), ["dy"])
    assert [(op.type, list(op.input), list(op.output)) for op in net.op[1:]] == [
        ("Negative", ["dy"], found)
    ]


@pytest.mark.parametrize(
    ("there", "back"), [("CopyCPUToGPU", "CopyGPUToCPU"), ("CopyGPUToCPU", "CopyCPUToGPU")]
)
def test_copies_between_devices_come_back(there: str, back: str) -> None:
    net, found = differentiated(operator(there, ["x"], ["y"]), ["dy"])
    assert [(op.type, list(op.input), list(op.output)) for op in net.op[1:]] == [
        (back, ["dy"], found)
    ]


@pytest.mark.parametrize("op_type", ["CopyOnDeviceLike", "NanCheck"])
def test_a_second_input_that_only_advises(op_type: str) -> None:
    feeds = {"x": np.float32([1, 2]), "like": np.float32([3])}
    check_maker(operator(op_type, ["x", "like"], ["y"]), feeds, ["x", "like"])

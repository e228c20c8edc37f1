"""Normalizations: their gradients, also where Caffe2's own are wrong, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator
from tests.caffe2.operators.running import refusal

from whileback.errors import UnsupportedError

Shape = tuple[int, ...]


def feeds(*shapes: Shape) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {
        f"x{k}": rng.uniform(0.2, 2, shape).astype(np.float32) for k, shape in enumerate(shapes)
    }


@pytest.mark.parametrize(
    ("op_type", "shapes", "outputs", "args"),
    [
        ("LayerNorm", [(2, 3, 2)], 3, {"axis": 2}),
        ("LayerNorm", [(2, 3), (3,), (3,)], 3, {"elementwise_affine": 1}),
        ("GroupNorm", [(2, 4, 3), (4,), (4,)], 3, {"group": 2}),
        ("GroupNorm", [(2, 3, 4), (4,), (4,)], 3, {"group": 2, "order": "NHWC"}),
        ("InstanceNorm", [(2, 2, 3), (2,), (2,)], 1, {}),
        ("InstanceNorm", [(2, 3, 2), (2,), (2,)], 3, {"order": "NHWC", "epsilon": 0.1}),
        ("RMSNorm", [(2, 3, 2), (2,), (2,)], 2, {"axis": 2}),
        ("SpatialBN", [(3, 2, 2), (2,), (2,), (2,), (2,)], 5, {}),
        ("SpatialBN", [(3, 2, 2), (2,), (2,), (2,), (2,)], 5, {"order": "NHWC", "epsilon": 0.1}),
        ("SpatialBN", [(3, 2, 2), (2,), (2,), (2,), (2,)], 1, {"is_test": 1}),
        ("SpatialBN", [(3, 2, 2), (2,), (2,), (2,), (2,)], 1, {"is_test": 1, "order": "NHWC"}),
        ("AffineChannel", [(2, 3, 2), (3,), (3,)], 1, {"is_learnable": 1}),
        ("ElementwiseLinear", [(2, 3, 2), (6,), (6,)], 1, {}),
        ("Normalize", [(2, 3)], 1, {"axis": 0}),
        ("NormalizeL1", [(2, 3)], 1, {}),
        ("NormalizeL1", [(2, 3)], 1, {"axis": 0}),
    ],
)
def test_gradients(op_type: str, shapes: list[Shape], outputs: int, args: Any) -> None:
    given = feeds(*shapes)
    op = operator(op_type, [*given], [f"y{k}" for k in range(outputs)], **args)
    check_maker(op, given, [*given][:3], ["y0"])


@pytest.mark.parametrize("of", [["y0"], ["y1"], ["y0", "y1"]])
@pytest.mark.parametrize(
    ("op_type", "args"),
    [("Moments", {"axes": [0, 2], "keepdims": 0}), ("BatchMoments", {}), ("ChannelStats", {})],
)
def test_gradients_of_two_results(op_type: str, args: Any, of: list[str]) -> None:
    given = feeds((2, 3, 2))
    check_maker(operator(op_type, ["x0"], ["y0", "y1"], **args), given, ["x0"], of)


def test_offsets_that_are_not_learned() -> None:
    given = feeds((2, 3), (3,), (3,))
    op = operator("AffineChannel", [*given], ["y"])
    assert differentiated(op, ["s"])[1][1:] == [None, None]
    check_maker(op, given, ["x0"])
    op = operator("LayerNorm", [*given], ["y", "mean", "deviation"])
    assert differentiated(op, ["s", None, None])[1][1:] == [None, None]


def test_refused() -> None:
    inputs = [f"x{k}" for k in range(7)]
    norm = operator("LayerNorm", ["x"], ["y", "mean", "deviation"])
    with pytest.raises(UnsupportedError) as info:
        differentiated(norm, ["s", "t", None])
    assert str(info.value) == (
        "LayerNorm (writes 'y'): no gradient is known of its output 'mean', on which the result "
        "depends. Compute 'mean' by an operator of its own."
    )
    with pytest.raises(UnsupportedError) as info:
        differentiated(operator("GroupNorm", inputs[:3], ["y"]), ["s"])
    assert str(info.value) == (
        "GroupNorm (writes 'y'): its gradient is computed from its output 1, which it was not "
        "given. Name one."
    )
    batch = operator("SpatialBN", inputs, ["y", "m", "v", "sm", "sv"], num_batches=2)
    with pytest.raises(UnsupportedError) as info:
        differentiated(batch, ["s", None, None, None, None])
    assert str(info.value) == (
        "SpatialBN (writes 'y'): no gradient is known for a batch that is one of several "
        "(num_batches). Train with one."
    )


def test_groups_that_do_not_divide() -> None:
    given = feeds((2, 4, 3), (4,), (4,))
    assert refusal(operator("GroupNorm", [*given], ["y"], group=3), given) == (
        "GroupNorm (writes 'y') cannot divide 4 channels into 3 groups."
    )
    assert refusal(operator("GroupNorm", [*given], ["y"]), given) == (
        "GroupNorm (writes 'y') cannot divide 4 channels into 32 groups."
    )

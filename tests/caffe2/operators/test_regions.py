"""Regions of images: what is refused."""

from __future__ import annotations

import numpy as np
from tests.caffe2.operators.makers import operator
from tests.caffe2.operators.running import refusal


def test_regions_have_four_or_five_numbers() -> None:
    given = {"X": np.zeros((1, 1, 4, 4), np.float32), "R": np.zeros((2, 6), np.float32)}
    assert refusal(operator("RoIAlign", ["X", "R"], ["Y"]), given) == (
        "RoIAlign (writes 'Y') needs regions of 4 or 5 numbers each, but they are FLOAT[2,6]. "
        "Give the shape of 'R' with --input."
    )

"""Stacks whose number of rows only the run knows are images like others."""

from __future__ import annotations

import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal

# The trips of the inner loop are as many as that of the outer one.
PROGRAM = """(float X, float W, float S, float G) => (float total) {{
    count = Constant<value = int64 {{4}}>()
    always = Constant<value = bool {{1}}>()
    zero = Constant<value = float {{0}}>()
    total = Loop(count, always, zero) <body = outer (int64 trip, bool go, float old)
        => (bool goes, float new) {{
        begun = Identity(X)
        last, images = Loop(trip, always, begun) <body = inner (int64 k, bool g, float[2, 4, 5] x)
            => (bool h, float[2, 4, 5] y, float[2, 4, 5] row) {{
            h = Identity(g)
            y = Sin(x)
            row = Identity(x)
        }}>
        results = {call}
        sum = ReduceSum<keepdims = 0>(results)
        new = Add(old, sum)
        goes = Identity(go)
    }}>
}}"""

CALLS = {
    "Conv": "Conv<pads = [1, 1, 1, 1]>(images, W)",
    "ConvTranspose": "ConvTranspose<strides = [2, 2]>(images, W)",
    "AveragePool": "AveragePool<kernel_shape = [2, 2]>(images)",
    "MaxPool": "MaxPool<kernel_shape = [2, 2]>(images)",
    "LpPool": "LpPool<kernel_shape = [2, 2]>(images)",
    "GlobalAveragePool": "GlobalAveragePool(images)",
    "GlobalMaxPool": "GlobalMaxPool(images)",
    "GlobalLpPool": "GlobalLpPool(images)",
    "LRN": "LRN<size = 3, alpha = 0.5>(images)",
    "InstanceNormalization": "InstanceNormalization(images, S, S)",
    "BatchNormalization": "BatchNormalization(images, S, S, S, G)",
    "LpNormalization, rows": "LpNormalization<axis = 0>(images)",
    "LpNormalization, within": "LpNormalization<axis = 1>(images)",
    "Resize": 'Resize<mode = "linear", axes = [2, 3]>(images, , half)',
}


@pytest.mark.parametrize("name", CALLS)
def test_takes_rows(name: str) -> None:
    text = PROGRAM.format(call=CALLS[name])
    if "half" in CALLS[name]:
        text = text.replace("zero =", "half = Constant<value_floats = [0.5, 2.0]>()\n    zero =")
    inputs = {"X": normal(2, 4, 5), "W": normal(2, 2, 3, 3), "S": normal(2), "G": normal(2) ** 2}
    assert_agrees(text, inputs)

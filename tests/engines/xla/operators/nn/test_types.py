"""Narrow and wide floats: what comes out is of the type given, and as exact as it can be."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.engines.xla.operators.agreement import normal
from tests.judge import parse

from whileback.engines import compile

TYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "double": np.float64,
}

SHAPES = {
    "X": (2, 4, 6, 5),
    "W": (4, 2, 3, 3),
    "B": (4,),
    "S": (4,),
    "V": (4,),
    "G": (2, 3, 4, 2),
    "offset": (2, 18, 4, 3),
    "rois": (3, 4),
    "T": (2, 2, 3),
    "Z": (3, 2, 4),
    "U": (1, 12, 4),
    "R": (1, 12, 3),
}

CALLS = {
    "Conv": "Conv<group = 2>(X, W, B)",
    "ConvTranspose": "ConvTranspose<strides = [2, 1]>(X, W)",
    "DeformConv": "DeformConv<group = 2>(X, W, offset, B)",
    "AveragePool": "AveragePool<kernel_shape = [2, 3], pads = [1, 1, 0, 0]>(X)",
    "MaxPool": "MaxPool<kernel_shape = [2, 3], pads = [1, 1, 0, 0]>(X)",
    "LpPool": "LpPool<kernel_shape = [2, 2]>(X)",
    "GlobalAveragePool": "GlobalAveragePool(X)",
    "GlobalMaxPool": "GlobalMaxPool(X)",
    "GlobalLpPool": "GlobalLpPool(X)",
    "BatchNormalization": "BatchNormalization(X, S, B, S, V)",
    "InstanceNormalization": "InstanceNormalization(X, S, B)",
    "LRN": "LRN<size = 3, alpha = 0.5>(X)",
    "LpNormalization": "LpNormalization<axis = 1>(X)",
    "Resize": 'Resize<mode = "cubic">(X, , scales)',
    "GridSample": "GridSample(X, G)",
    "AffineGrid": "AffineGrid(T, size)",
    "RoiAlign": "RoiAlign<sampling_ratio = 2, output_height = 2>(X, rois, which)",
    "LSTM": "LSTM<hidden_size = 3>(Z, U, R)",
    "GRU": "GRU<hidden_size = 4>(Z, U, R4)",
}


def _text(kind: str) -> str:
    inputs = [f"{kind}{list(shape)} {name}" for name, shape in SHAPES.items()]
    results = ", ".join(f"{kind}[...] y_{name}" for name in CALLS).replace("[...]", "")
    lines = "\n".join(f"y_{name} = {call}" for name, call in CALLS.items())
    return f"""({", ".join(inputs)}, {kind}[1, 12, 4] R4) => ({results}) {{
        scales = Constant<value_floats = [1.0, 1.0, 1.5, 0.8]>()
        size = Constant<value_ints = [2, 1, 3, 4]>()
        which = Constant<value_ints = [0, 1, 1]>()
        {lines}
    }}"""


def _arguments(dtype: Any) -> dict[str, np.ndarray]:
    arrays = {name: normal(*shape) for name, shape in {**SHAPES, "R4": (1, 12, 4)}.items()}
    arrays["V"] = arrays["V"] ** 2 + 1
    return {name: array.astype(dtype) for name, array in arrays.items()}


@pytest.mark.parametrize("kind", TYPES)
def test_gives_the_type_given(kind: str) -> None:
    arguments = _arguments(TYPES[kind])
    exact = {name: array.astype(np.float64) for name, array in arguments.items()}
    found = compile(_model(kind), engine="xla")(arguments)
    wanted = compile(_model("double"), engine="xla")(exact)
    step = float(ml_dtypes.finfo(TYPES[kind]).eps)
    for name, value in found.items():
        assert value.dtype == TYPES[kind], name
        bound = step * float(np.abs(wanted[name]).max())
        difference = np.abs(value.astype(np.float64) - wanted[name]).max()
        assert difference <= bound, (name, difference, bound)


def _model(kind: str, opset: int = 22) -> Any:
    model = parse(_text(kind), opset)
    for output in model.graph.outputs:
        output.shape = None
    return model


def test_doubles_are_as_exact_as_floats_are_right() -> None:
    """ONNX Runtime has most of these for FLOAT alone."""
    arguments = _arguments(np.float32)
    wanted = compile(_model("float", 21))(arguments)
    exact = {name: array.astype(np.float64) for name, array in arguments.items()}
    found = compile(_model("double", 21), engine="xla")(exact)
    for name, value in wanted.items():
        bound = 1e-5 * np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=name)

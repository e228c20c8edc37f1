"""Conformance case 33, reading: 16-bit weights are the same in either of their two forms."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto

from whileback.formats import from_proto, load, save

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g ({0}[2,2] x) => ({0}[2,2] y) <{0}[2,2] w = {{0, 0, 0, 0}}> {{
   y = Mul(x, w)
}}"""
WEIGHT = [[0.25, 0.5], [1.0, 2.0]]
# Sign, exponent and fraction by hand: 0.25 = 2^-2, 0.5 = 2^-1, 1 = 2^0, 2 = 2^1.
FLOAT16 = [(15 - 2) << 10, (15 - 1) << 10, 15 << 10, (15 + 1) << 10]
BFLOAT16 = [(127 - 2) << 7, (127 - 1) << 7, 127 << 7, (127 + 1) << 7]


def stored(dtype: str, form: str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(MODEL.format(dtype))
    bits = FLOAT16 if dtype == "float16" else BFLOAT16
    tensor = TensorProto(name="w", dims=[2, 2], data_type=proto.graph.initializer[0].data_type)
    if form == "raw_data":
        tensor.raw_data = np.array(bits, "<u2").tobytes()
    else:
        tensor.int32_data.extend(bits)
    proto.graph.initializer[0].CopyFrom(tensor)
    return proto


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", ["raw_data", "int32_data"])
def test_all_four_decode_equal(tmp_path: Path, dtype: str, form: str) -> None:
    proto = stored(dtype, form)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    models = [from_proto(proto, None), load(tmp_path / "m.onnx")]
    for name in ("again.onnx", "again.onnxtxt"):
        save(models[0], tmp_path / name)
        models.append(load(tmp_path / name))
    for model in models:
        weight = model.graph.initializers["w"].const_value
        assert weight is not None
        assert weight.dtype.name == dtype.upper()
        assert weight.numpy().astype(np.float64).tolist() == WEIGHT

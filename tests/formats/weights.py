"""A model of one weight, in the file or beside it, and what tests look at in it."""

from pathlib import Path

import onnx.parser
import onnx_ir as ir

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1.5, -2}> {
   y = Mul(x, w)
}"""
EXTERNAL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y)
   <float[2] w = ["location": "w.bin", "offset": "4", "length": "8"]> {
   y = Mul(x, w)
}"""


def write(path: Path, text: str = MODEL) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def weight(model: ir.Model) -> ir.TensorProtocol:
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    return tensor


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())

"""What ONNX Runtime is told about numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest

FLUSHED = """
import numpy as np, onnx, whileback
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    half (float[1] x) => (float[1] y) { y = Mul(x, x) }''')
run = whileback.compile(model, flush=FLUSH)
print(run(x=np.float32([1e-20]))["y"][0] == 0)
"""


@pytest.mark.parametrize("flush", [True, False])
def test_numbers_too_small_to_be_normal_count_as_zero_on_demand(flush: bool) -> None:
    """In a process of its own: the first session decides for all."""
    code = FLUSHED.replace("FLUSH", str(flush))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{flush}\n"

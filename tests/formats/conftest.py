from pathlib import Path

import numpy as np
import pytest
from tests.formats.weights import EXTERNAL, write


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Return the path of a model whose weight [1.5, -2] lies in w.bin beside it."""
    path = write(tmp_path / "in" / "m.onnx", EXTERNAL)
    (path.parent / "w.bin").write_bytes(np.array([9, 1.5, -2, 9], np.float32).tobytes())
    return path

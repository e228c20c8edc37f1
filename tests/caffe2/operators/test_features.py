"""Decoding by a codebook: gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, operator

from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef

FEEDS = {
    "book": np.float32([1, -2, 0.5]),
    "few": np.uint8([2, 2]),
    "many": np.int32([[0, 1, 2], [0, 0, 0]]),
}


@pytest.mark.parametrize("of", [["a"], ["b"], ["a", "b"]])
def test_quant_decode(of: list[str]) -> None:
    check_maker(operator("QuantDecode", ["book", "few", "many"], ["a", "b"]), FEEDS, ["book"], of)


def test_rows_alone_cannot_be_clipped() -> None:
    op = operator("EnsureClipped", ["book", "few", "many"], ["book"])
    specs = {name: TensorSpec.of(array) for name, array in FEEDS.items()}
    with pytest.raises(UnsupportedError) as info:
        read(NetDef(name="net", op=[op]), specs)
    assert str(info.value) == (
        "EnsureClipped (writes 'book') cannot be read: it clips some rows alone. Use Clip, for all "
        "of them."
    )

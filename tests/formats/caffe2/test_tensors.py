import numpy as np
import pytest

from whileback.errors import NetDefError
from whileback.formats.caffe2.caffe2_pb2 import TensorProto
from whileback.formats.caffe2.tensors import to_array


def test_raw_data() -> None:
    data = np.array([1.5, -2], np.float64)
    tensor = TensorProto(dims=[2, 1], data_type=TensorProto.DOUBLE, raw_data=data.tobytes())
    np.testing.assert_array_equal(to_array(tensor), data[:, None])


def test_bytes_of_int8() -> None:
    tensor = TensorProto(dims=[2], data_type=TensorProto.INT8, byte_data=b"\x01\xff")
    assert to_array(tensor).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"dims": [1 << 40], "float_data": [1]},
            "Tensor 't' has the dimensions [1099511627776], 1099511627776 elements, but holds 1; "
            "the file is damaged.",
        ),
        (
            {"dims": [0, 1 << 62]},
            "Tensor 't' has the dimensions [0, 4611686018427387904], which no array has.",
        ),
        ({"dims": [-1], "float_data": [1]}, "Tensor 't' has a negative dimension: [-1]."),
        (
            {"dims": [1], "data_type": TensorProto.ZERO_COLLISION_HASH},
            "Tensor 't': there is no tensor of data type 14; there are FLOAT (1), INT32 (2), "
            "BYTE (3), STRING (4), BOOL (5), UINT8 (6), INT8 (7), UINT16 (8), INT16 (9), "
            "INT64 (10), FLOAT16 (12), DOUBLE (13).",
        ),
    ],
)
def test_tensors_that_are_damaged(fields: dict, said: str) -> None:
    with pytest.raises(NetDefError) as caught:
        to_array(TensorProto(name="t", **fields))
    assert str(caught.value) == said

"""Casts: their gradients, and types that there are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.caffe2.operators.makers import check_maker, differentiated, operator

from whileback.caffe2.reading import TensorSpec, read
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.caffe2_pb2 import NetDef, TensorProto

X = np.float32([1.5, -2.5])


@pytest.mark.parametrize("args", [{"to": "double", "from_type": "float"}, {"to": 13}, {"to": 1}])
def test_between_floats(args: dict[str, Any]) -> None:
    check_maker(operator("Cast", ["x"], ["y"], **args), {"x": X}, ["x"])


def test_the_gradient_is_cast_back() -> None:
    op = operator("Cast", ["x"], ["y"], to="float", from_type="double")
    net, found = differentiated(op, ["dy"])
    back = net.op[1]
    assert (back.type, list(back.input), list(back.output)) == ("Cast", ["dy"], found)
    assert [(arg.name, arg.i) for arg in back.arg] == [
        ("to", TensorProto.DOUBLE),
        ("from_type", TensorProto.FLOAT),
    ]


@pytest.mark.parametrize("args", [{"to": "int32"}, {"to": "float", "from_type": "int32"}])
def test_integers_have_no_gradient(args: dict[str, Any]) -> None:
    net, found = differentiated(operator("Cast", ["x"], ["y"], **args), ["dy"])
    assert found == [None] and len(net.op) == 1


@pytest.mark.parametrize("op_type", ["HalfToFloat", "FloatToHalf"])
def test_halves(op_type: str) -> None:
    X = np.float32([1.5, -2.5]) if op_type == "FloatToHalf" else np.float16([1.5, -2.5])
    check_maker(operator(op_type, ["x"], ["y"]), {"x": X}, ["x"])


def refusal(**args: Any) -> str:
    """What is said to a cast."""
    net = NetDef(name="net", op=[operator("Cast", ["x"], ["y"], **args)])
    with pytest.raises((NetDefError, UnsupportedError)) as info:
        read(net, {"x": TensorSpec.of(X)})
    return str(info.value)


def test_an_unknown_name() -> None:
    assert refusal(to="int") == (
        "Cast (writes 'y'): its argument 'to' is 'int', not one of UNDEFINED, FLOAT, INT32, BYTE, "
        "STRING, BOOL, UINT8, INT8, UINT16, INT16, INT64, FLOAT16, DOUBLE, ZERO_COLLISION_HASH, "
        "REBATCHING_BUFFER."
    )


def test_text() -> None:
    assert refusal(to=4) == (
        "Cast (writes 'y') cannot be read: it writes numbers as text, which nothing here does."
    )

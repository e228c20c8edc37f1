"""Elements in other types are what ml_dtypes and ONNX's tables say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import parse

from whileback.engines import compile

FLOAT8 = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]
NUMBERS = [0, -0.0, 0.3, 1.3, -3.5, 100, 1e-9, np.nan]
LARGE = [1e9, -1e9, np.inf, -np.inf]


def _cast(X: np.ndarray, to: str, attributes: str = "", known: bool = False) -> np.ndarray:
    kind, X = ir.DataType.from_numpy(X.dtype).name.lower(), X[None]
    text = f"({kind}[1, n] X) => (float[1, n] Y) {{ Y = Cast<to = 1{attributes}>(X) }}"
    model = parse(text, opset=24)
    node = model.graph[0]
    node.attributes.add(ir.AttrInt64("to", int(ir.DataType[to])))
    node.outputs[0].dtype = ir.DataType[to]
    if not known:
        return compile(model, engine="xla")(X=X)["Y"][0]
    constant = ir.Value(name="C", const_value=ir.tensor(X, name="C"))
    model.graph.register_initializer(constant)
    node.replace_input_with(0, constant)
    return compile(model, engine="xla")(X=np.zeros_like(X))["Y"][0]


def _assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.dtype == wanted.dtype
    found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("to", FLOAT8)
@pytest.mark.parametrize("source", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16])
def test_saturates(source: type, to: str, known: bool) -> None:
    dtype = ir.DataType[to].numpy()
    most = float(ml_dtypes.finfo(dtype).max)
    _assert_same(_cast(np.array(NUMBERS, source), to, known=known), np.array(NUMBERS, dtype))
    with np.errstate(over="ignore"):
        large = np.array(LARGE, source)
    found = _cast(large, to, known=known)
    _assert_same(found, np.array([most, -most, most, -most], dtype))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("to", FLOAT8)
def test_does_not_saturate(to: str, known: bool) -> None:
    dtype = ir.DataType[to].numpy()
    found = _cast(np.float32(LARGE), to, ", saturate = 0", known)
    wanted = LARGE[2:] * 2 if to == "FLOAT8E5M2" else [np.nan] * 4
    _assert_same(found, np.array(wanted, dtype))


@pytest.mark.parametrize("source", FLOAT8)
@pytest.mark.parametrize("to", FLOAT8)
def test_goes_from_one_small_type_to_another(source: str, to: str) -> None:
    start, dtype = ir.DataType[source].numpy(), ir.DataType[to].numpy()
    X = np.array([0.5, -3, 1000, -1000], np.float32).clip(-200, 200).astype(start)
    largest = np.array(ml_dtypes.finfo(start).max, start)
    bound = min(float(largest), float(ml_dtypes.finfo(dtype).max))
    found = _cast(np.append(X, largest), to)
    _assert_same(found, np.append(X, largest).astype(np.float32).clip(-bound, bound).astype(dtype))


POWERS = [1, 1.2, 1.5, 1.7, 3, 1e-3, 2.0**-127, 2.0**127]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("mode", "exponents"),
    [
        ("up", [0, 1, 1, 1, 2, -9, -127, 127]),
        ("down", [0, 0, 0, 0, 1, -10, -127, 127]),
        ("nearest", [0, 0, 1, 1, 2, -10, -127, 127]),
    ],
)
def test_rounds_to_powers(mode: str, exponents: list[int], known: bool) -> None:
    found = _cast(np.float32(POWERS), "FLOAT8E8M0", f', round_mode = "{mode}"', known)
    np.testing.assert_array_equal(found.astype(np.float64), 2.0 ** np.array(exponents))


def test_rounds_to_the_powers_at_the_ends() -> None:
    X = np.float32([0, np.inf, 3e38, np.nan])
    np.testing.assert_array_equal(
        _cast(X, "FLOAT8E8M0").astype(np.float64), [2.0**-127, 2.0**127, 2.0**127, np.nan]
    )
    attributes = ', round_mode = "nearest", saturate = 0'
    found = _cast(X, "FLOAT8E8M0", attributes).astype(np.float64)
    np.testing.assert_array_equal(found, [np.nan] * 4)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "to", ["INT8", "UINT8", "INT16", "INT4", "UINT4", "BOOL", "INT32", "UINT64"]
)
def test_drops_higher_bits(to: str, known: bool) -> None:
    X = np.int64([0, 1, 200, 70000, -1, -129])
    found = _cast(X, to, known=known)
    assert found.dtype == ir.DataType[to].numpy()
    bits = {"INT4": 4, "UINT4": 4}.get(to, found.dtype.itemsize * 8)
    wanted = X != 0 if to == "BOOL" else X.astype(object) % 2**bits
    np.testing.assert_array_equal(found.astype(object) % 2**bits, wanted.astype(object))


@pytest.mark.parametrize("known", [False, True])
def test_cuts_fractions_off(known: bool) -> None:
    X = np.float32([1.9, -1.9, 0.5, -0.5, 7])
    for to in ("INT64", "INT32", "INT8", "INT4"):
        assert _cast(X, to, known=known).astype(int).tolist() == [1, -1, 0, 0, 7]


def test_finds_what_is_no_number() -> None:
    model = parse(
        """(float[n] X) => (bool[n] N, bool[n] I, bool[n] P, bool[n] M) {
            N = IsNaN(X) I = IsInf(X)
            P = IsInf<detect_negative = 0>(X) M = IsInf<detect_positive = 0>(X)
        }"""
    )
    X = np.float32([np.nan, np.inf, -np.inf, 0])
    found = compile(model, engine="xla")(X=X)
    wanted = {"N": [1, 0, 0, 0], "I": [0, 1, 1, 0], "P": [0, 1, 0, 0], "M": [0, 0, 1, 0]}
    assert {name: value.astype(int).tolist() for name, value in found.items()} == wanted

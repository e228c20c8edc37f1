"""Products, sums up to each element, orders, transforms agree with ONNX Runtime or NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.engines.xla.operators.agreement import assert_agrees, normal
from tests.judge import parse

from whileback.engines import compile

SHAPES = [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((5, 3, 4), (4, 2)),
    ((3, 4), (5, 4, 2)),
    ((5, 1, 3, 4), (6, 4, 2)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_multiplies_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    text = "(float A, float B) => (float Y) { Y = MatMul(A, B) }"
    assert_agrees(text, {"A": normal(*a), "B": normal(*b)})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_adds_up_halves_in_float32(dtype: type) -> None:
    name = np.dtype(dtype).name
    text = f"""({name}[1, n] A, {name}[n, 1] B) => ({name}[1, 1] Y, {name}[1, 1] Z) {{
        Y = MatMul(A, B) Z = Gemm(A, B)
    }}"""
    found = compile(parse(text), engine="xla")(
        A=np.ones((1, 4096), dtype), B=np.ones((4096, 1), dtype)
    )
    assert [Y.item() for Y in found.values()] == [4096, 4096]


@pytest.mark.parametrize(
    "attributes", ["", "<transA = 1, alpha = 0.5>", "<transB = 1, beta = -2.0>"]
)
@pytest.mark.parametrize("c", [(), (3,), (3, 3), (3, 1)])
def test_multiplies_and_adds(attributes: str, c: tuple[int, ...]) -> None:
    text = f"(float A, float B, float C) => (float Y) {{ Y = Gemm{attributes}(A, B, C) }}"
    assert_agrees(text, {"A": normal(3, 3), "B": normal(3, 3, seed=1), "C": normal(*c, seed=2)})


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij, kj", "ii", "ii->i", "ij->ji", "...ij,...jk->...ik", "ij,ij->"]
)
def test_sums_products(equation: str) -> None:
    names = ["A", "B"][: equation.count(",") + 1]
    inputs = ", ".join(f"float {name}" for name in names)
    text = f'({inputs}) => (float Y) {{ Y = Einsum<equation = "{equation}">({", ".join(names)}) }}'
    assert_agrees(text, {name: normal(3, 3, seed=k) for k, name in enumerate(names)})


@pytest.mark.parametrize("attributes", ["", "<exclusive = 1>", "<reverse = 1, exclusive = 1>"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("known", [False, True])
def test_accumulates(axis: int, attributes: str, known: bool) -> None:
    start = f"<int64 axis = {{{axis}}}" + (", int64[3] X = {4, 5, -6}>" if known else ">")
    source = "float[1] Z" if known else "float X"
    kind = "int64" if known else "float"
    text = f"({source}) => ({kind} Y) {start} {{ Y = CumSum{attributes}(X, axis) }}"
    assert_agrees(text, {"Z": np.float32([0])} if known else {"X": normal(3, 4)})


@pytest.mark.parametrize("size", [0, 1])
def test_accumulates_nothing(size: int) -> None:
    model = parse(
        """(float[2, n] X) => (float[2, n] Y) <int64 axis = {1}> {
            Y = CumSum<exclusive = 1>(X, axis)
        }"""
    )
    found = compile(model, engine="xla")(X=np.ones((2, size), np.float32))["Y"]
    np.testing.assert_array_equal(found, np.zeros((2, size), np.float32))


def test_multiplies_up() -> None:
    text = "(float[3] X) => (float[3] Y, float[3] Z) <int64 axis = {0}> {"
    text += "Y = CumProd(X, axis) Z = CumProd<reverse = 1, exclusive = 1>(X, axis) }"
    found = compile(parse(text, opset=26), engine="xla")(X=np.float32([2, 3, 5]))
    assert {name: Y.tolist() for name, Y in found.items()} == {"Y": [2, 6, 30], "Z": [15, 5, 1]}


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize(
    "attributes", ["", "<largest = 0>", "<axis = 0>", "<axis = 0, largest = 0>"]
)
def test_finds_the_largest(dtype: str, attributes: str) -> None:
    text = f"""({dtype} X, int64 K) => ({dtype} V, int64 I) {{ V, I = TopK{attributes}(X, K) }}"""
    as_type = {"float": np.float32, "double": np.float64}.get(dtype, dtype)
    X = np.array([[3, -1, 3, 0], [2, 9, -7, 2], [5, 5, 5, -(2**31)]], as_type)
    assert_agrees(text, {"X": X, "K": np.int64([2])})


def test_finds_the_smallest_of_unsigned_numbers() -> None:
    text = "(uint8[n] X, int64[1] K) => (uint8[k] V, int64[k] I) { V, I = TopK<largest = 0>(X, K) }"
    found = compile(parse(text), engine="xla")(X=np.uint8([7, 0, 255, 0]), K=np.int64([3]))
    assert {name: Y.tolist() for name, Y in found.items()} == {"V": [0, 0, 7], "I": [1, 3, 0]}


def test_transforms() -> None:
    """Real and complex signals, whole and in part, of even and odd lengths, cut and filled up."""
    text = """(double[b, n, 1] R, double[b, n, 2] C, int64 n) => (
        double A, double B, double D, double E, double F) {
        A = DFT(R, n) B = DFT<onesided = 1>(R, n) D = DFT(C, n) E = DFT<inverse = 1>(C, n)
        F = DFT<onesided = 1, inverse = 1>(B, n)
    }"""
    model = parse(text)
    for value in model.graph.outputs:
        value.shape = None
    R, C = normal(2, 6, 1, dtype=np.float64), normal(2, 6, 2, dtype=np.float64)
    real, pairs = R[..., 0], C[..., 0] + 1j * C[..., 1]
    for n in (5, 6, 9):
        found = compile(model, engine="xla")(R=R, C=C, n=np.array(n))
        half = np.fft.rfft(real, n)
        spectra = [np.fft.fft(real, n), half, np.fft.fft(pairs, n), np.fft.ifft(pairs, n)]
        for Y, wanted in zip(found.values(), spectra, strict=False):
            np.testing.assert_allclose(Y[..., 0] + 1j * Y[..., 1], wanted, atol=1e-12)
        np.testing.assert_allclose(found["F"][..., 0], np.fft.irfft(half, n), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4, 4)])
def test_finds_determinants(shape: tuple[int, ...], dtype: str) -> None:
    model = parse(f"({dtype} X) => ({dtype} Y) {{ Y = Det(X) }}")
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = None
    X = normal(*shape, dtype=np.float32 if dtype == "float" else np.float64)
    found = compile(model, engine="xla")(X=X)["Y"]
    assert found.dtype == X.dtype
    np.testing.assert_allclose(found, np.linalg.det(X), rtol=1e-4)

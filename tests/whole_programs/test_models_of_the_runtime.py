"""Models as ONNX Runtime's own tools write them: optimized, and quantised in all their ways."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import whileback

HEADS, SIZE, LENGTH = 2, 16, 5
CONVOLUTIONS = """<ir_version: 8, opset_import: ["": 13]>
net (float[1,3,8,8] x) => (float[1,10] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1) r = Relu(c)
  d = Conv<pads = [1, 1, 1, 1]>(r, w2, b2) s = Add(d, r) t = Relu(s)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(t) g = GlobalAveragePool(p)
  f = Flatten(g) m = Gemm<transB = 1>(f, w3, b3) z = Sigmoid(m) y = Mul(z, m)
}"""
TRANSFORMER = f"""<ir_version: 8, opset_import: ["": 17]>
net (float[B,{LENGTH},{SIZE}] x) => (float[B,{LENGTH},{SIZE}] y) {{
  q0 = MatMul(x, wq) q1 = Add(q0, bq) k0 = MatMul(x, wk) k1 = Add(k0, bk)
  v0 = MatMul(x, wv) v1 = Add(v0, bv)
  apart = Constant<value_ints = [0, 0, {HEADS}, {SIZE // HEADS}]>()
  q2 = Reshape(q1, apart) q = Transpose<perm = [0, 2, 1, 3]>(q2)
  k2 = Reshape(k1, apart) k = Transpose<perm = [0, 2, 3, 1]>(k2)
  v2 = Reshape(v1, apart) v = Transpose<perm = [0, 2, 1, 3]>(v2)
  s0 = MatMul(q, k) root = Constant<value_float = 2.8284>() s1 = Div(s0, root)
  s = Softmax<axis = -1>(s1) o0 = MatMul(s, v) o1 = Transpose<perm = [0, 2, 1, 3]>(o0)
  together = Constant<value_ints = [0, 0, {SIZE}]>() o2 = Reshape(o1, together)
  o3 = MatMul(o2, wo) o4 = Add(o3, bo) r = Add(o4, x)
  l = LayerNormalization<axis = -1>(r, g1, h1)
  f0 = MatMul(l, w1) f1 = Add(f0, c1) two = Constant<value_float = 1.4142135>()
  f2 = Div(f1, two) f3 = Erf(f2) one = Constant<value_float = 1.0>() f4 = Add(f3, one)
  f5 = Mul(f1, f4) half = Constant<value_float = 0.5>() f6 = Mul(f5, half)
  f7 = MatMul(f6, w2) f8 = Add(f7, c2) r2 = Add(f8, l)
  y = LayerNormalization<axis = -1>(r2, g2, h2)
}}"""
WEIGHTS = {
    CONVOLUTIONS: {
        "w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 4, 3, 3), "b2": (4,), "w3": (10, 4), "b3": (10,),
    },
    TRANSFORMER: {
        **{name: (SIZE, SIZE) for name in ("wq", "wk", "wv", "wo")},
        **{name: (SIZE,) for name in "bq bk bv bo g1 h1 g2 h2 c2".split()},
        "w1": (SIZE, 2 * SIZE), "c1": (2 * SIZE,), "w2": (2 * SIZE, SIZE),
    },
}  # fmt: skip
SHAPES = {CONVOLUTIONS: (1, 3, 8, 8), TRANSFORMER: (2, LENGTH, SIZE)}


@pytest.fixture(params=[CONVOLUTIONS, TRANSFORMER], ids=["convolutions", "transformer"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Return the file of a model with random weights, and an input for it."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(request.param)
    for name, shape in WEIGHTS[request.param].items():
        array = (0.3 * rng.normal(size=shape) + (name[0] == "g")).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx", rng.normal(size=SHAPES[request.param]).astype(np.float32)


class _Inputs(CalibrationDataReader):
    def __init__(self, x: np.ndarray) -> None:
        self._inputs: Iterator[dict[str, np.ndarray]] = iter([{"x": x}, {"x": -x}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._inputs, None)


def gradient(file: Path, x: np.ndarray) -> np.ndarray:
    """Return the gradient of a projection of `y`, by a plain session of the runtime."""
    model = whileback.vjp(file, "y", "x", quantized="straight-through")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    shape = whileback.compile(file)(x=x)["y"].shape
    seed = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return dict(zip(names, session.run(None, {"x": x, "y_grad": seed}), strict=True))["x_grad"]


def judge(file: Path, plain: Path, x: np.ndarray) -> None:
    """Check a model's gradient, which must be about that of the plain one.

    Not more, since rounding decides which of two elements is the largest, and which is negative.
    """
    report = whileback.check(file, "y", "x", {"x": x}, quantized="straight-through", directions=2)
    assert report.ok, str(report)
    own, other = gradient(file, x).ravel(), gradient(plain, x).ravel()
    assert own @ other > 0.6 * np.linalg.norm(own) * np.linalg.norm(other)


@pytest.mark.parametrize("level", ["BASIC", "EXTENDED"])
def test_optimized(network: tuple[Path, np.ndarray], level: str) -> None:
    file, x = network
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
    )
    options.optimized_model_filepath = str(file.with_name("optimized.onnx"))
    onnxruntime.InferenceSession(file, options)
    optimized = file.with_name("optimized.onnx")
    domains = {node.domain for node in onnx.load(optimized).graph.node}
    assert ("com.microsoft" in domains) == (level == "EXTENDED")
    judge(optimized, file, x)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("type_", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("format_", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_quantised(
    network: tuple[Path, np.ndarray], format_: QuantFormat, type_: QuantType, per_channel: bool
) -> None:
    file, x = network
    logging.getLogger().setLevel(logging.ERROR)
    result = file.with_name("quantised.onnx")
    quantize_static(
        file,
        result,
        _Inputs(x),
        quant_format=format_,
        activation_type=type_,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
    )
    judge(result, file, x)
    with pytest.raises(whileback.NoGradientError, match="--quantized straight-through"):
        whileback.vjp(result, "y", "x")


def test_quantised_dynamically(network: tuple[Path, np.ndarray]) -> None:
    file, x = network
    result = file.with_name("quantised.onnx")
    quantize_dynamic(file, result)
    judge(result, file, x)

"""Operators of the domain `ai.onnx.ml` agree with ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from whileback.engines import compile
from whileback.errors import EngineError

X = np.float32([[1, -2, 3], [0, 0, 0], [0.5, 2, -1], [np.nan, 4, 4]])
WEIGHTS = [0.5, -1.0, 2.0, 1.0, 0.25, -0.75]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def _model(op_type: str, array: np.ndarray, attributes: dict[str, Any], version: int) -> ir.Model:
    dtype = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    node = onnx.helper.make_node(op_type, ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    given = onnx.helper.make_tensor_value_info("X", dtype, ["N", *array.shape[1:]])
    result = onnx.helper.make_empty_tensor_value_info("Y")
    graph = onnx.helper.make_graph([node], "g", [given], [result])
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", version)]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def _agrees(op_type: str, array: np.ndarray, version: int = 1, **attributes: Any) -> None:
    model = _model(op_type, array, attributes, version)
    expected, found = compile(model)(X=array)["Y"], compile(model, engine="xla")(X=array)["Y"]
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizes(norm: str) -> None:
    _agrees("Normalizer", X[:3], norm=norm)


@pytest.mark.parametrize("width", [1, 3])
def test_scales(width: int) -> None:
    _agrees("Scaler", X, offset=[0.5, -1.0, 2.0][:width], scale=[2.0, 0.5, -1.0][:width])
    _agrees("Scaler", np.int64([[4, 5, 6]]), offset=[1.0], scale=[0.5])


@pytest.mark.parametrize("width", [1, 3])
def test_imputes(width: int) -> None:
    _agrees("Imputer", X, imputed_value_floats=[7.0, 8.0, 9.0][:width], replaced_value_float=np.nan)
    _agrees("Imputer", X, imputed_value_floats=[7.0, 8.0, 9.0][:width], replaced_value_float=4.0)
    whole = np.int64([[1, 2, 3], [-1, -1, 0]])
    _agrees("Imputer", whole, imputed_value_int64s=[7, 8, 9][:width], replaced_value_int64=-1)


def test_binarizes() -> None:
    _agrees("Binarizer", X[:3], threshold=0.5)


def test_encodes_labels() -> None:
    keys = {"keys_int64s": [5, -1, 3], "values_floats": [0.5, 1.5, 2.5], "default_float": 9.0}
    _agrees("LabelEncoder", np.int64([[3, 5, 4], [-1, 100, -7]]), 2, **keys)
    nans = {"keys_floats": [np.nan, 1.0], "values_int64s": [7, 8]}
    _agrees("LabelEncoder", np.float32([1, np.nan, 2]), 4, **nans)


# ONNX Runtime transforms no score that is alone.
@pytest.mark.parametrize(("targets", "transform"), [(1, "NONE"), *((2, t) for t in TRANSFORMS)])
def test_linear_regression(targets: int, transform: str) -> None:
    _agrees(
        "LinearRegressor",
        X[:3],
        coefficients=WEIGHTS[: 3 * targets],
        intercepts=[0.5, -0.25][:targets],
        targets=targets,
        post_transform=transform,
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str) -> None:
    common = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 2.0], "rho": [0.125]}
    vectors = {"support_vectors": WEIGHTS, "n_supports": 2, "coefficients": [0.75, -0.5]}
    _agrees("SVMRegressor", X[:3], **vectors, **common)


@pytest.mark.parametrize("how", range(4))
def test_tree_ensembles(how: int) -> None:
    tensor = onnx.numpy_helper.from_array
    _agrees(
        "TreeEnsemble",
        X[:3],
        5,
        aggregate_function=how,
        n_targets=2,
        tree_roots=[0, 2],
        nodes_featureids=[0, 1, 2],
        nodes_splits=tensor(np.float32([0.25, 0, 1])),
        nodes_modes=tensor(np.uint8([0, 0, 0])),
        nodes_truenodeids=[1, 0, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 1, 4],
        nodes_falseleafs=[1, 1, 1],
        leaf_targetids=[0, 1, 0, 1, 0],
        leaf_weights=tensor(np.float32([1, 2, 4, 8, 16])),
    )


def test_strings_are_refused() -> None:
    attributes = {"keys_strings": ["a"], "values_int64s": [1]}
    model = _model("LabelEncoder", np.array([["a"]], object), attributes, 2)
    with pytest.raises(EngineError) as error:
        compile(model, engine="xla")
    assert str(error.value) == (
        "The engine 'xla' cannot run model 'g': strings, of which XLA has none, go into or come "
        "from ai.onnx.ml::LabelEncoder. Run it with engine='onnxruntime'."
    )

"""What the operators of `ai.onnx.ml` are made of computes what ONNX Runtime's kernels compute.

And finite differences judge its gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.judge import assert_gradient, parse

from whileback.engines import compile
from whileback.errors import NoGradientError
from whileback.gradient import vjp
from whileback.graph.definitions.table import definitions
from whileback.graph.normalize import normalize
from whileback.graph.scopes import walk

HEADER = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> model '
LABELS = 'classlabels_strings = ["a", "b", "c"]'


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


X, SMALL = floats(4, 3), np.abs(floats(4, 3)) / 5
VECTORS = floats(5, 3, seed=1)


@dataclass(frozen=True)
class Case:
    """A call of an operator, with its inputs in order; a classifier gives labels first."""

    call: str
    inputs: Sequence[np.ndarray] = (X,)
    labels: bool = False
    kinks: bool = False

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{index}": value for index, value in enumerate(self.inputs)}

    @property
    def wrt(self) -> list[str]:
        return [name for name, value in self.feeds.items() if value.dtype.kind == "f"]

    @property
    def text(self) -> str:
        names = {"float32": "float", "float64": "double", "int64": "int64"}
        types = ", ".join(
            f"{names[value.dtype.name]}[{','.join(map(str, value.shape))}] {name}"
            for name, value in self.feeds.items()
        )
        kind = "string" if "strings" in self.call else "int64"
        labels = (f", {kind}[L] labels", "labels, ") if self.labels else ("", "")
        node = f"{labels[1]}y = ai.onnx.ml.{self.call}({', '.join(self.feeds)})"
        return f"{HEADER} ({types}) => (float[] y{labels[0]}) {{ {node} }}"


def listed(name: str, numbers: np.ndarray) -> str:
    return f"{name} = [{', '.join(f'{number:.9f}' for number in numbers.ravel())}]"


def svm(operator: str, kind: str, more: str, *, rho: int = 1, coefficients: int = 5) -> str:
    return (
        f'{operator}<kernel_type = "{kind}", kernel_params = [0.5, 0.2, 2.0], '
        f"{listed('support_vectors', VECTORS)}, {listed('rho', floats(rho, seed=2))}, "
        f"{listed('coefficients', floats(coefficients, seed=3))}{more}>"
    )


def regressor(transform: str, targets: int) -> Case:
    weights = listed("coefficients", np.abs(floats(targets, 3, seed=4)) / 3)
    bias = listed("intercepts", np.abs(floats(targets, seed=5)) / 5)
    attributes = f'{weights}, {bias}, targets = {targets}, post_transform = "{transform}"'
    return Case(f"LinearRegressor<{attributes}>", [SMALL])


def classifier(transform: str, rows: int, labels: str) -> Case:
    weights = listed("coefficients", np.abs(floats(rows, 3, seed=4)) / 3)
    bias = listed("intercepts", np.abs(floats(rows, seed=5)) / 5)
    call = f'LinearClassifier<{weights}, {bias}, {labels}, post_transform = "{transform}">'
    return Case(call, [SMALL], labels=True)


TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
TWO = "classlabels_ints = [5, 7]"
CASES = {
    "columns": Case("ArrayFeatureExtractor", [X, np.array([2, 0, 2])]),
    "columns of a list": Case("ArrayFeatureExtractor", [X[0], np.array([[2, 0]])]),
    "columns of three axes": Case("ArrayFeatureExtractor", [floats(2, 1, 3), np.array([1])]),
    "features": Case("FeatureVectorizer<inputdimensions = [3, 2]>", [X, floats(4, 2)]),
    "features, cut and filled": Case("FeatureVectorizer<inputdimensions = [2, 4]>", [X, X]),
    "features of lists": Case("FeatureVectorizer<inputdimensions = [3, 2]>", [X[0], floats(2)]),
    "features, DOUBLE": Case("FeatureVectorizer<inputdimensions = [3]>", [X.astype(np.float64)]),
    "imputed": Case(
        "Imputer<imputed_value_floats = [7.0, 8.0, 9.0], replaced_value_float = 2.0>",
        [np.float32([[1, 2, 3], [2, 0, 2]])],
        kinks=True,
    ),
    "imputed zeros": Case(
        "Imputer<imputed_value_floats = [7.0]>", [np.float32([[1, 0, 3]])], kinks=True
    ),
    **{f"normalized by {norm}": Case(f'Normalizer<norm = "{norm}">') for norm in ("L1", "L2")},
    "normalized by MAX": Case('Normalizer<norm = "MAX">', kinks=True),
    "a list normalized": Case('Normalizer<norm = "L2">', [X[0]]),
    "normalized, DOUBLE": Case('Normalizer<norm = "L2">', [X.astype(np.float64)]),
    "scaled": Case("Scaler<offset = [1.0, 2.0, 3.0], scale = [0.5, 1.0, 2.0]>"),
    "scaled, DOUBLE": Case("Scaler<offset = [1.0], scale = [0.5]>", [X.astype(np.float64)]),
    "regressor without intercepts": Case("LinearRegressor<coefficients = [0.1, 0.2, 0.3]>"),
    "classifier of two": classifier("NONE", 2, TWO),
    "supports, linear": Case(
        'SVMRegressor<kernel_type = "LINEAR", coefficients = [0.1, 0.2, 0.3], rho = [0.3], '
        "kernel_params = [0.5, 0.2, 2.0]>"
    ),
    "supports, one of three": Case(
        svm("SVMClassifier", "RBF", ", vectors_per_class = [2, 1, 2], " + LABELS, rho=3,
            coefficients=10),
        labels=True,
    ),
    "supports, linear classes": Case(
        'SVMClassifier<kernel_type = "LINEAR", rho = [0.3], kernel_params = [0.5, 0.2, 2.0], '
        f"{listed('coefficients', floats(3, 3, seed=3))}, {LABELS}>",
        labels=True,
    ),
    **{f"targets, {name}": regressor(name, 2) for name in TRANSFORMS},
    **{f"target, {name}": regressor(name, 1) for name in TRANSFORMS},
    **{f"classes, {name}": classifier(name, 3, LABELS) for name in TRANSFORMS},
    **{f"class, {name}": classifier(name, 1, TWO) for name in TRANSFORMS if name != "PROBIT"},
    **{
        f"supports, {kind}": Case(svm("SVMRegressor", kind, ", n_supports = 5"))
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    },
    **{
        f"supports, one of two, {name}": Case(
            svm("SVMClassifier", "SIGMOID", f", vectors_per_class = [2, 3], {TWO}, "
                f'post_transform = "{name}"'),
            labels=True,
        )
        for name in TRANSFORMS
        if name != "PROBIT"
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_computes_what_the_kernel_computes(case: Case) -> None:
    model = parse(case.text)
    want = compile(model, optimization="disabled")(case.feeds)
    defined = normalize(
        model, needs_expansion=lambda node: (node.domain, node.op_type) in definitions()
    )
    left = [node for node in walk(defined.graph) if node.domain]
    assert len(left) == case.labels
    got = compile(defined, optimization="disabled")(case.feeds)
    np.testing.assert_allclose(got["y"], want["y"], rtol=2e-5, atol=2e-6)
    if case.labels:
        np.testing.assert_array_equal(got["labels"], want["labels"])


@pytest.mark.parametrize("name", [name for name in CASES if name != "normalized, DOUBLE"])
def test_gradient(name: str) -> None:
    """What computes in FLOAT for a DOUBLE is not as exact as a DOUBLE should be.

    Nor does much remain of second derivatives of PROBIT, where two roots cancel.
    """
    case = CASES[name]
    options = {"kinks": case.kinks, "second_order": "PROBIT" not in name}
    assert_gradient(case.text, ["y"], case.wrt, case.feeds, **options)


def test_numbers_that_are_none_are_replaced() -> None:
    text = f"""{HEADER} (float[1,3] x) => (float[1,3] y) {{
      h = Sqrt(x)
      y = ai.onnx.ml.Imputer<imputed_value_floats = [7.0], replaced_value_float = nan>(h)
    }}"""
    feeds = {"x": np.float32([[4, -1, 9]]), "y_grad": np.float32([[1, 1, 1]])}
    results = compile(vjp(parse(text), "y", "x"))(feeds)
    np.testing.assert_array_equal(results["y"], [[2, 7, 3]])
    np.testing.assert_allclose(results["x_grad"], [[0.25, 0, 1 / 6]], rtol=1e-6)


def test_a_norm_of_zero() -> None:
    for norm in ("MAX", "L1", "L2"):
        case = Case(f'Normalizer<norm = "{norm}">', [np.zeros((1, 2), np.float32)])
        feeds = {**case.feeds, "y_grad": np.float32([[1, 2]])}
        results = compile(vjp(parse(case.text), "y", "x0"))(feeds)
        np.testing.assert_array_equal(results["y"], [[0, 0]])
        np.testing.assert_array_equal(results["x0_grad"], [[1, 2]])


REFUSED = {
    "SVMRegressor": (
        svm("SVMRegressor", "RBF", ", n_supports = 5, one_class = 1"),
        "tells 1 from -1, which has no gradient",
    ),
    "SVMClassifier": (
        svm(
            "SVMClassifier",
            "RBF",
            f", vectors_per_class = [2, 3], prob_a = [-1.0], prob_b = [0.2], {TWO}",
        ),
        "finds probabilities by iteration, which is not differentiated",
    ),
    "LinearClassifier": (
        classifier("PROBIT", 1, TWO).call,
        "has one score for two classes, of which PROBIT makes no numbers",
    ),
}


@pytest.mark.parametrize("operator", REFUSED)
def test_what_has_no_gradient_is_refused_with_the_reason(operator: str) -> None:
    call, reason = REFUSED[operator]
    case = Case(call, labels=operator.endswith("Classifier"))
    with pytest.raises(NoGradientError) as caught:
        vjp(parse(case.text), "y", "x0")
    assert str(caught.value).splitlines()[-1] == (
        f"Node '{operator}' (ai.onnx.ml::{operator}) {reason}. Differentiate a model without it, "
        "such as one that ends in the scores."
    )


def test_what_is_constant_in_between_passes_nothing_on() -> None:
    text = f"""{HEADER} (float[2,1] x) => (float[2,1] y) {{
      t = ai.onnx.ml.Binarizer<threshold = 0.5>(x) y = Mul(t, x)
    }}"""
    feeds = {"x": np.float32([[0.3], [0.7]]), "y_grad": np.float32([[1], [1]])}
    results = compile(vjp(parse(text), "y", "x"))(feeds)
    np.testing.assert_array_equal(results["x_grad"], [[0], [1]])

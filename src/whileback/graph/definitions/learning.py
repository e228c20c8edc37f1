"""The operators of `ai.onnx.ml` that are smooth: linear models, kernels, preparing features.

As ONNX Runtime computes them, where that differs from the text: a regressor of one target passes
it through no function but PROBIT, and a classifier that has the score of one class of two makes
the other of it.
Source: https://github.com/onnx/onnx/blob/main/docs/Operators-ml.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, combinations

import numpy as np
import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.builder import Builder
from whileback.graph.definitions.table import definition
from whileback.graph.shapes import rank

__all__: list[str] = []

_DOMAIN = "ai.onnx.ml"
_FLOAT = ir.DataType.FLOAT

# Labels are no floats: they stay with the node.
Scores = tuple[None, ir.Value]


@definition(_DOMAIN, "ArrayFeatureExtractor")
def array_feature_extractor(op: Builder, node: ir.Node, X: ir.Value, Y: ir.Value) -> ir.Value:
    """Z is the columns of X with the numbers Y."""
    return op.Gather(_rows(op, X), op.Reshape(Y, [-1]), axis=-1)


@definition(_DOMAIN, "FeatureVectorizer")
def feature_vectorizer(op: Builder, node: ir.Node, *parts: ir.Value) -> ir.Value:
    """Y is the parts one behind another, each cut off or filled up to its number of columns."""
    wanted = node.attributes["inputdimensions"].as_ints()
    columns = []
    for part, count in zip(parts, wanted, strict=True):
        rows = op.cast(op.Flatten(_rows(op, part), axis=1), _FLOAT)
        missing = op.Max(op.Sub([count], op.dim(rows, 1)), 0)
        filled = op.Pad(rows, op.Concat([0, 0, 0], missing, axis=0))
        columns.append(op.Slice(filled, [0], [count], [1]))
    return op.Concat(*columns, axis=1)


@definition(_DOMAIN, "Imputer")
def imputer(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y is X, but for elements that equal the value to be replaced, or are no numbers."""
    given = node.attributes.get_floats("imputed_value_floats")
    replaced = node.attributes.get_float("replaced_value_float", 0.0)
    hit = op.IsNaN(X) if math.isnan(replaced) else op.Equal(X, op.constant(replaced, X.dtype))
    return op.Where(hit, op.constant(np.array(given), X.dtype), X)


@definition(_DOMAIN, "Normalizer")
def normalizer(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = X/‖X‖ by rows, where ‖X‖ is the largest element, Σ|X| or √ΣX²; X itself where it is 0."""
    X = op.cast(X, _FLOAT)
    norm = node.attributes.get_string("norm", "MAX")
    reduce = {"MAX": op.ReduceMax, "L1": op.ReduceL1, "L2": op.ReduceL2}[norm]
    size = reduce(X, [-1])
    nothing = op.Equal(size, 0.0)
    return op.Where(nothing, X, op.Div(X, op.Where(nothing, op.constant(1, _FLOAT), size)))


@definition(_DOMAIN, "Scaler")
def scaler(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = (X - offset)·scale."""
    moved = op.Sub(op.cast(X, _FLOAT), _numbers(op, node, "offset"))
    return op.Mul(moved, _numbers(op, node, "scale"))


@definition(_DOMAIN, "LinearRegressor")
def linear_regressor(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = f(X·Wᵀ + b), with a row of W for each target."""
    scores = _linear(op, node, X, node.attributes.get_int("targets", 1))
    return _regressed(op, node, scores)


@definition(_DOMAIN, "LinearClassifier")
def linear_classifier(op: Builder, node: ir.Node, X: ir.Value) -> Scores:
    """Z = f(X·Wᵀ + b), with a row of W for each class."""
    intercepts = node.attributes.get_floats("intercepts")
    count = _classes(node) if intercepts is None else len(intercepts)
    return None, _classified(op, node, _linear(op, node, X, count), opposite=False)


@definition(_DOMAIN, "SVMRegressor")
def svm_regressor(op: Builder, node: ir.Node, X: ir.Value) -> ir.Value:
    """Y = f(Σᵢ cᵢ·k(X, vᵢ) + ρ), for support vectors vᵢ and a kernel k."""
    if node.attributes.get_int("one_class", 0):
        raise _unsupported(node, "tells 1 from -1, which has no gradient")
    vectors = node.attributes.get_int("n_supports", 0)
    weights = _numbers(op, node, "coefficients")
    features = _kernel(op, node, X, vectors) if vectors else op.cast(_rows(op, X), _FLOAT)
    scores = op.Add(op.MatMul(features, op.Unsqueeze(weights, [1])), _numbers(op, node, "rho"))
    return _regressed(op, node, scores)


@definition(_DOMAIN, "SVMClassifier")
def svm_classifier(op: Builder, node: ir.Node, X: ir.Value) -> Scores:
    """Z = f(Σᵢ cᵢ·k(X, vᵢ) + ρ), a score for each pair of classes, or for each class without vᵢ."""
    if node.attributes.get_floats("prob_a"):
        raise _unsupported(node, "finds probabilities by iteration, which is not differentiated")
    counts = node.attributes.get_ints("vectors_per_class")
    rho = node.attributes["rho"].as_floats()
    if counts is None:
        weights = op.Reshape(_numbers(op, node, "coefficients"), [_classes(node), -1])
        features = op.cast(_rows(op, X), _FLOAT)
        scores = op.Add(op.MatMul(features, op.Transpose(weights, perm=[1, 0])), rho[0])
        return None, _classified(op, node, scores, opposite=True)
    kernel = _kernel(op, node, X, sum(counts))
    weights = op.constant(_pairs(node, counts), _FLOAT)
    scores = op.Add(op.MatMul(kernel, weights), _numbers(op, node, "rho"))
    return None, _classified(op, node, scores, opposite=True)


def _rows(op: Builder, X: ir.Value) -> ir.Value:
    """Return X, a list as a matrix of one row."""
    return op.Unsqueeze(X, [0]) if rank(X) == 1 else X


def _numbers(op: Builder, node: ir.Node, name: str) -> ir.Value:
    return op.constant(np.array(node.attributes[name].as_floats()), _FLOAT)


def _classes(node: ir.Node) -> int:
    """Return the number of labels."""
    for name in ("classlabels_ints", "classlabels_strings"):
        if name in node.attributes:
            return len(node.attributes[name].value)
    return 1


def _linear(op: Builder, node: ir.Node, X: ir.Value, count: int) -> ir.Value:
    """Return X·Wᵀ + b with so many columns."""
    weights = op.Reshape(_numbers(op, node, "coefficients"), [count, -1])
    Y = op.MatMul(op.cast(_rows(op, X), _FLOAT), op.Transpose(weights, perm=[1, 0]))
    has_bias = bool(node.attributes.get_floats("intercepts"))
    return op.Add(Y, _numbers(op, node, "intercepts")) if has_bias else Y


def _kernel(op: Builder, node: ir.Node, X: ir.Value, count: int) -> ir.Value:
    """Return k(x, v) for each row x of X and each support vector v."""
    X = op.cast(_rows(op, X), _FLOAT)
    vectors = op.Reshape(_numbers(op, node, "support_vectors"), [count, -1])
    gamma, offset, degree = (list(node.attributes["kernel_params"].as_floats()) + [0.0] * 3)[:3]
    kind = node.attributes.get_string("kernel_type", "LINEAR")
    if kind == "RBF":
        apart = op.Sub(op.Unsqueeze(X, [1]), vectors)
        return op.Exp(op.Mul(op.ReduceSumSquare(apart, [-1], keepdims=0), -gamma))
    product = op.MatMul(X, op.Transpose(vectors, perm=[1, 0]))
    if kind == "LINEAR":
        return product
    inner = op.Add(op.Mul(product, gamma), offset)
    return op.Tanh(inner) if kind == "SIGMOID" else op.Pow(inner, degree)


def _pairs(node: ir.Node, counts: Sequence[int]) -> np.ndarray:
    """Return how much each support vector counts for the score of each pair of classes."""
    classes, vectors = len(counts), sum(counts)
    given = np.reshape(node.attributes["coefficients"].as_floats(), (classes - 1, vectors))
    ends = list(accumulate(counts))
    weights = np.zeros((vectors, classes * (classes - 1) // 2))
    for column, (i, j) in enumerate(combinations(range(classes), 2)):
        first, second = (slice(ends[k] - counts[k], ends[k]) for k in (i, j))
        weights[first, column] = given[j - 1, first]
        weights[second, column] = given[i, second]
    return weights


def _regressed(op: Builder, node: ir.Node, scores: ir.Value) -> ir.Value:
    name = node.attributes.get_string("post_transform", "NONE")
    single = scores.shape is not None and scores.shape[-1] == 1
    return scores if single and name != "PROBIT" else _TRANSFORMS[name](op, scores)


def _classified(op: Builder, node: ir.Node, scores: ir.Value, *, opposite: bool) -> ir.Value:
    """Return the scores of all classes, passed through the function that the node names.

    Of the only score s of two classes, the other one is 1 - s, or -s if they are `opposite`.
    """
    name = node.attributes.get_string("post_transform", "NONE")
    if scores.shape is None or scores.shape[-1] != 1 or _classes(node) != 2:
        return _TRANSFORMS[name](op, scores)
    if name == "PROBIT":
        raise _unsupported(node, "has one score for two classes, of which PROBIT makes no numbers")
    if name == "LOGISTIC":
        return op.Concat(op.Sigmoid(op.Neg(scores)), op.Sigmoid(scores), axis=-1)
    other = op.Neg(scores) if opposite and name == "NONE" else op.Sub(1.0, scores)
    return op.Concat(other, scores, axis=-1)


def _softmax_of_nonzero(op: Builder, X: ir.Value) -> ir.Value:
    """Return eˣ/Σ, where what is about 0 stays so and counts as that in the sum."""
    largest = op.ReduceMax(X, [-1])
    small = op.LessOrEqual(op.Abs(X), 1e-7)
    terms = op.Where(small, op.Mul(X, op.Exp(op.Neg(largest))), op.Exp(op.Sub(X, largest)))
    return op.Div(terms, op.ReduceSum(terms, [-1]))


def _probit(op: Builder, X: ir.Value) -> ir.Value:
    """Return √2·erf⁻¹(2X - 1), by the approximation of Winitzki (2008) that ONNX Runtime uses."""
    a, pi = 0.147, 3.14159
    x = op.Sub(op.Mul(X, 2.0), 1.0)
    log = op.Log(op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))
    v = op.Add(op.Mul(log, 0.5), 2 / (pi * a))
    root = op.Sqrt(op.Sub(op.Mul(v, v), op.Mul(log, 1 / a)))
    return op.Mul(op.Mul(op.Sign(x), op.Sqrt(op.Sub(root, v))), math.sqrt(2))


_TRANSFORMS: dict[str, Callable[[Builder, ir.Value], ir.Value]] = {
    "LOGISTIC": lambda op, X: op.Sigmoid(X),
    "NONE": lambda op, X: X,
    "PROBIT": _probit,
    "SOFTMAX": lambda op, X: op.Softmax(X, axis=-1),
    "SOFTMAX_ZERO": _softmax_of_nonzero,
}


def _unsupported(node: ir.Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"Node '{node.name}' ({_DOMAIN}::{node.op_type}) {what}. Differentiate a model without it, "
        "such as one that ends in the scores."
    )

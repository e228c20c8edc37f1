"""Losses: what a step makes smaller. The table `LOSSES` has them by name.

Each is a function of a builder, a prediction and its label to one number, in plain operators of
ONNX, with the arithmetic of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.builder import Builder
from whileback.signatures import require_types
from whileback.training.class_weights import check_class_weights, class_weights_of
from whileback.training.named import from_table
from whileback.training.predictions import Reads

__all__ = [
    "LOSSES",
    "Loss",
    "binary_cross_entropy",
    "cosine",
    "cross_entropy",
    "huber",
    "kl",
    "l1",
    "losses_listed",
    "mse",
    "nll",
    "output",
]

Reduction = Literal["mean", "sum"]
# Of a builder, the prediction and the label.
Compute = Callable[[Builder, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Loss:
    """A loss with its settings, as `cross_entropy(label_smoothing=0.1)` and its like return it.

    Attributes:
        name: what it is called in the table.
        compute: makes one number of the prediction and the label; where there are classes, they
            are along axis 1 of the prediction.
        reads: what it takes the prediction for; see `predictions`.
        of_classes: whether the label holds numbers of classes, INT64, and lacks their axis.
        output: the output, or another value of the main graph, that it reads; None for the only
            output of a model.
        label: the input that it compares that with; added to the model where it has no such value.
            None for none.
        weight: the factor with which it counts among several.
        axis: of the classes; None for that of the `Softmax` before the output, or 1.
        function: which `compute` calls, where the caller gave it; the label is its second input.
    """

    name: str
    compute: Compute
    reads: Reads = "values"
    of_classes: bool = False
    output: str | None = None
    label: str | None = "label"
    weight: float = 1.0
    axis: int | None = None
    function: ir.Function | None = None

    def __post_init__(self) -> None:
        """Refuse what is of another type."""
        require_types(Loss, vars(self))


def output(output: str | None = None, weight: float = 1.0) -> Loss:
    """Return the sum of an output of the model, which is a loss of its own already."""
    return Loss("output", _total, output=output, label=None, weight=weight)


def _total(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
    return op.ReduceSum(X, keepdims=0)


def cross_entropy(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    axis: int | None = None,
    class_weights: Sequence[float] | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Loss:
    """Return -Σ w_y·log softmax(x)_y over all labels y, divided by Σ w_y for the mean.

    With smoothing ε, that times 1 - ε, and ε times the same with the mean over all classes c of
    w_c·log softmax(x)_c.

    Shapes: logits [N, C, …] or [C at `axis`], labels INT64 [N, …].

    Raises: ArgumentError for a smoothing outside of 0 to 1, and weights that are no numbers from 0.

    Source: Szegedy et al., Rethinking the Inception architecture, arXiv:1512.00567.
    """
    require_types(cross_entropy, locals(), but=("class_weights",))
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"cross_entropy(label_smoothing={label_smoothing!r}) is not between 0 and 1. Give a "
            "number between them."
        )
    _check(reduction, "mean", "sum")
    check_class_weights(class_weights)

    def compute(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        weights = class_weights_of(op, class_weights, X)
        Y = _from_0(op, Y, ignore_index)
        options = {"ignore_index": ignore_index, "reduction": reduction}
        if not label_smoothing:
            return op.SoftmaxCrossEntropyLoss(X, Y, weights, **options)
        L = op.LogSoftmax(X, axis=1)
        sharp = op.NegativeLogLikelihoodLoss(L, Y, weights, **options)
        even = _even(op, L, Y, weights, ignore_index, reduction)
        return op.Add(op.Mul(sharp, 1.0 - label_smoothing), op.Mul(even, label_smoothing))

    return Loss("cross-entropy", compute, "logits", True, output, label, weight, axis)


def _even(
    op: Builder,
    L: ir.Value,
    Y: ir.Value,
    weights: ir.Value | None,
    ignore_index: int | None,
    reduction: Reduction,
) -> ir.Value:
    """Return what a label of all classes alike makes of log-probabilities L."""
    weighted = L
    if weights is not None:
        rest = op.Sub(op.Shape(op.Shape(L)), [2])
        column = op.Reshape(weights, op.Concat([-1], op.Expand(1, rest), axis=0))
        weighted = op.Mul(L, column)
    each = op.Neg(op.ReduceMean(weighted, [1], keepdims=0))
    shares = op.Expand(op.constant(1, L.dtype), op.Shape(Y))
    labels = Y
    ignored = None
    if ignore_index is not None:
        ignored = op.Equal(Y, op.constant(ignore_index, Y.dtype))
        labels = op.Where(ignored, op.constant(0, Y.dtype), Y)
    if weights is not None:
        shares = op.Gather(weights, labels)
    if ignored is not None:
        each, shares = (op.Where(ignored, 0.0, value) for value in (each, shares))
    total = op.ReduceSum(each, keepdims=0)
    return total if reduction == "sum" else op.Div(total, op.ReduceSum(shares, keepdims=0))


def nll(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    axis: int | None = None,
    class_weights: Sequence[float] | None = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Loss:
    """Return -Σ w_y·x_y of log-probabilities x, divided by Σ w_y for the mean.

    Shapes: log-probabilities [N, C, …], labels INT64 [N, …].

    Raises: ArgumentError for weights that are no numbers from 0.
    """
    require_types(nll, locals(), but=("class_weights",))
    _check(reduction, "mean", "sum")
    check_class_weights(class_weights)

    def compute(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        weights = class_weights_of(op, class_weights, X)
        Y = _from_0(op, Y, ignore_index)
        return op.NegativeLogLikelihoodLoss(
            X, Y, weights, ignore_index=ignore_index, reduction=reduction
        )

    return Loss("nll", compute, "log-probabilities", True, output, label, weight, axis)


def binary_cross_entropy(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    reduction: Reduction = "mean",
) -> Loss:
    """Return -(y·log σ(x) + (1 - y)·log(1 - σ(x))) = log(1 + eˣ) - x·y, of logits x.

    Shapes: logits and labels are alike; labels are floats from 0 to 1.
    """
    require_types(binary_cross_entropy, locals())

    def each(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        # Softplus(X), for which ONNX Runtime 1.32 has no kernel in DOUBLE. Where X is 0, the
        # slope of Max is a half, and so is that of the whole.
        rest = op.Log(op.Add(op.Exp(op.Neg(op.Abs(X))), 1.0))
        return op.Sub(op.Add(op.Max(X, 0.0), rest), op.Mul(X, Y))

    compute = _reduced(each, reduction)
    return Loss(
        "binary-cross-entropy", compute, "binary logits", output=output, label=label, weight=weight
    )


def mse(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    reduction: Reduction = "mean",
) -> Loss:
    """Return (x - y)². Shapes: prediction and label are alike."""
    require_types(mse, locals())

    def each(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        difference = op.Sub(X, Y)
        return op.Mul(difference, difference)

    return Loss("mse", _reduced(each, reduction), output=output, label=label, weight=weight)


def l1(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    reduction: Reduction = "mean",
) -> Loss:
    """Return |x - y|, whose slope is 0 where they are equal. Shapes: as of `mse`."""
    require_types(l1, locals())

    def each(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        return op.Abs(op.Sub(X, Y))

    return Loss("l1", _reduced(each, reduction), output=output, label=label, weight=weight)


def huber(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    delta: float = 1.0,
    reduction: Reduction = "mean",
) -> Loss:
    """Return d²/2 of d = x - y where |d| ≤ δ, else δ·(|d| - δ/2): c·(d - c/2), c = d cut at ±δ.

    Shapes: as of `mse`.

    Raises: ArgumentError for δ ≤ 0.

    Source: Huber, Robust estimation of a location parameter, 1964.
    """
    require_types(huber, locals())
    if delta <= 0:
        raise ArgumentError(f"huber(delta={delta!r}) is not above 0. Give a number above 0.")

    def each(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        difference = op.Sub(X, Y)
        limits = (op.constant(limit, X.dtype) for limit in (-delta, delta))
        cut = op.Clip(difference, *limits)
        return op.Mul(cut, op.Sub(difference, op.Mul(cut, 0.5)))

    return Loss("huber", _reduced(each, reduction), output=output, label=label, weight=weight)


def kl(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    reduction: Literal["batchmean", "mean", "sum"] = "batchmean",
) -> Loss:
    """Return q·(log q - x) of log-probabilities x and probabilities q, 0 where q = 0.

    The mean is per element of axis 0 ("batchmean"), as the divergence is defined, or per element.

    Shapes: log-probabilities and probabilities are alike.

    Source: Kullback and Leibler, On information and sufficiency, 1951.
    """
    require_types(kl, locals())
    _check(reduction, "batchmean", "mean", "sum")

    def compute(op: Builder, X: ir.Value, Q: ir.Value) -> ir.Value:
        there = op.Greater(Q, 0.0)
        entropy = op.Mul(Q, op.Log(op.Where(there, Q, 1.0)))
        each = op.Sub(entropy, op.Mul(Q, X))
        if reduction != "batchmean":
            return _reduce(op, each, reduction)
        count = op.cast(op.Squeeze(op.dim(X, 0), [0]), X)
        return op.Div(op.ReduceSum(each, keepdims=0), count)

    return Loss("kl", compute, "log-probabilities", output=output, label=label, weight=weight)


def cosine(
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
    *,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Loss:
    """Return 1 - x·y/(max(‖x‖, ε)·max(‖y‖, ε)) of the vectors along axis 1.

    Shapes: prediction and label are alike, [N, D, …].
    """
    require_types(cosine, locals())

    def each(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        product = op.ReduceSum(op.Mul(X, Y), [1], keepdims=0)
        norms = (op.ReduceSum(op.Mul(value, value), [1], keepdims=0) for value in (X, Y))
        lengths = (op.Sqrt(op.Max(norm, eps * eps)) for norm in norms)
        return op.Sub(1.0, op.Div(product, op.Mul(*lengths)))

    return Loss("cosine", _reduced(each, reduction), output=output, label=label, weight=weight)


def _reduced(each: Compute, reduction: Reduction) -> Compute:
    """Return the mean or the sum of a loss of elements."""
    _check(reduction, "mean", "sum")
    return lambda op, X, Y: _reduce(op, each(op, X, Y), reduction)


def _reduce(op: Builder, each: ir.Value, reduction: str) -> ir.Value:
    reduce = op.ReduceMean if reduction == "mean" else op.ReduceSum
    return reduce(each, keepdims=0)


def _from_0(op: Builder, Y: ir.Value, ignore_index: int | None) -> ir.Value:
    """Return labels of which those below 0 are too large, but for the one that is ignored.

    Else these would count classes from the end. Too large ones are refused when it runs.
    """
    assert Y.dtype is not None
    largest = op.constant(np.iinfo(Y.dtype.numpy()).max, Y.dtype)
    positive = op.BitwiseAnd(Y, largest)
    if ignore_index is None or ignore_index >= 0:
        return positive
    return op.Where(op.Equal(Y, op.constant(ignore_index, Y.dtype)), Y, positive)


def _check(reduction: str, *known: str) -> None:
    if reduction not in known:
        raise ArgumentError(f"reduction={reduction!r} is unknown; {nearest(reduction, known)}")


LOSSES: Mapping[str, Callable[..., Loss]] = {
    "cross-entropy": cross_entropy,
    "binary-cross-entropy": binary_cross_entropy,
    "nll": nll,
    "mse": mse,
    "l1": l1,
    "huber": huber,
    "kl": kl,
    "cosine": cosine,
    "output": output,
}


def losses_listed(loss: str | Loss | Sequence[str | Loss]) -> list[Loss]:
    """Return losses, those named with the settings that they have by default.

    Raises: ArgumentError for an unknown name, or none.
    """
    several = list(loss) if isinstance(loss, Sequence) and not isinstance(loss, str) else [loss]
    if not several:
        raise ArgumentError("loss= is empty; give a name or a loss.")
    return [
        each if isinstance(each, Loss) else from_table("loss", each, LOSSES) for each in several
    ]

"""Gradients of the two cross-entropy losses."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.shapes import rank

Gradients = tuple[ir.Value | None, ...]


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op: GradientBuilder, node: ir.Node, dL: ir.Value) -> Gradients:
    """L_i = -w_i·X_i at the label of i, so dX = -w·dL there and dw = -X·dL, w = 0 where ignored.

    The mean divides by Σ w; where that is 0, as if everything is ignored, all gradients are 0.
    """
    loss = _Loss(op, node, required(node))
    dX = loss.to_log_probabilities(dL) if required(node) in op.active else None
    return dX, None, loss.to_weights(dL)


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    op: GradientBuilder, node: ir.Node, dL: ir.Value | None, dP: ir.Value | None = None
) -> Gradients:
    """L is the negative log-likelihood loss of P = log softmax(X), so dX = dP - exp(P)·Σ dP.

    The sum is over the classes; dP is what flows into P from L, and from P's own readers.
    """
    X = required(node)
    given = len(node.outputs) > 1 and node.outputs[1].name
    P = node.outputs[1] if given else op.LogSoftmax(X, axis=1)
    loss = _Loss(op, node, P)
    dW = None if dL is None else loss.to_weights(dL)
    if X not in op.active:
        return None, None, dW
    total = op.add(dP, None if dL is None else loss.to_log_probabilities(dL))
    assert total is not None
    return op.Sub(total, op.Mul(op.Exp(P), op.ReduceSum(total, [1]))), None, dW


class _Loss:
    """The part of both losses that picks, weighs and averages log-probabilities P[N,C,…]."""

    def __init__(self, op: GradientBuilder, node: ir.Node, P: ir.Value) -> None:
        self.op, self.node, self.P = op, node, op.widened(P)
        self.reduction = node.attributes.get_string("reduction", "mean")
        self.weights = optional(node, 2)
        self.chosen = self._chosen(op.Unsqueeze(required(node, 1), [1]))
        self.class_weights = None if self.weights is None else self._along_classes(self.weights)
        weight = self.class_weights
        weight = op.constant(1.0, self.P.dtype) if weight is None else op.widened(weight)
        self.factors = op.Where(self.chosen, weight, 0.0)

    def to_log_probabilities(self, dL: ir.Value) -> ir.Value:
        """dP = -w·dL at the labels, 0 elsewhere."""
        return self.op.cast(self.op.Mul(self.op.Neg(self._share(dL)), self.factors), dL)

    def to_weights(self, dL: ir.Value) -> ir.Value | None:
        """dw = -Σ P·dL over the elements with the label; for a mean, of P less its mean, -L."""
        if self.class_weights is None or self.weights not in self.op.active:
            return None
        op = self.op
        P = self._centred() if self.reduction == "mean" else self.P
        each = op.Mul(P, self._share(dL))
        picked = op.unbroadcast(op.Where(self.chosen, each, 0.0), self.class_weights)
        return op.cast(op.Neg(op.reshape(picked, self.weights)), dL)

    def _chosen(self, labels: ir.Value) -> ir.Value:
        """Return BOOL[N,C,…]: whether an element has the class as its label and counts."""
        op = self.op
        numbers = op.arange(op.dim(self.P, 1))
        chosen = op.Equal(labels, op.cast(self._along_classes(numbers), labels))
        if "ignore_index" not in self.node.attributes:
            return chosen
        ignored = op.constant(self.node.attributes.get_int("ignore_index", 0), labels.dtype)
        return op.And(chosen, op.Not(op.Equal(labels, ignored)))

    def _along_classes(self, values: ir.Value) -> ir.Value:
        """Give a vector with an element for each class the axes that come after the classes."""
        op, count = self.op, rank(self.P)
        if count is None:
            ones = op.Expand(1, op.Sub(op.Shape(op.Shape(self.P)), [2]))
            return op.Reshape(values, op.Concat([-1], ones, axis=0))
        return values if count == 2 else op.Unsqueeze(values, list(range(1, count - 1)))

    def _share(self, dL: ir.Value) -> ir.Value:
        """Return what an element of weight 1 gets of dL, in a type that can count them all."""
        op, dL = self.op, self.op.widened(dL)
        if self.reduction == "none":
            return op.Unsqueeze(dL, [1])
        if self.reduction == "sum":
            return dL
        return op.Div(dL, self._total())

    def _centred(self) -> ir.Value:
        """Return P less its mean, which is -L but for rounding: that is in the mean of P + L."""
        op = self.op
        near = op.Where(self.chosen, op.Add(self.P, op.widened(self.node.outputs[0])), 0.0)
        mean = op.Div(op.ReduceSum(op.Mul(near, self.factors), keepdims=0), self._total())
        return op.Sub(near, mean)

    def _total(self) -> ir.Value:
        """Return Σ w, or 1 where that is 0."""
        op = self.op
        total = op.ReduceSum(self.factors, keepdims=0)
        return op.Where(op.cast(total, ir.DataType.BOOL), total, 1.0)

"""Gradients of the two cross-entropy losses."""

from __future__ import annotations

import onnx_ir as ir

from whileback.gradient.backward import GradientBuilder
from whileback.gradient.registry import rule
from whileback.gradient.rules.inputs import optional, required
from whileback.graph.shapes import rank, size

Gradients = tuple[ir.Value | None, ...]


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op: GradientBuilder, node: ir.Node, dL: ir.Value) -> Gradients:
    """L_i = -w_i·X_i at the label of i, so dX = -w·dL there and dw = -X·dL, w = 0 where ignored.

    The mean divides by Σ w; where that is 0, as if everything is ignored, all gradients are 0.
    """
    loss = _Loss(op, node)
    dX = loss.to_log_probabilities(dL) if required(node) in op.active else None
    return dX, None, loss.to_weights(dL, required(node)) if loss.trains_weights else None


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    op: GradientBuilder, node: ir.Node, dL: ir.Value | None, dP: ir.Value | None = None
) -> Gradients:
    """L is the negative log-likelihood loss of P = log softmax(X): dX = dP - exp(P)·Σ dP.

    The sum is over the classes; dP is what flows into P from L, and from P's own readers.
    """
    X, loss = op.widened(required(node)), _Loss(op, node)
    given = len(node.outputs) > 1 and node.outputs[1].name
    P = node.outputs[1] if given else None
    dW = None
    if dL is not None and loss.trains_weights:
        dW = loss.to_weights(dL, P or op.LogSoftmax(X, axis=1))
    if required(node) not in op.active:
        return None, None, dW
    shares = op.Softmax(X, axis=1) if P is None else op.Exp(op.widened(P))
    dX = None if dL is None else loss.to_logits(dL, shares)
    if dP is not None:
        dP = op.widened(dP)
        dX = op.add(dX, op.Sub(dP, op.Mul(shares, op.ReduceSum(dP, [1]))))
    assert dX is not None
    return op.cast(dX, required(node)), None, dW


class _Loss:
    """The part of both losses that picks, weighs and averages log-probabilities P[N,C,…]."""

    def __init__(self, op: GradientBuilder, node: ir.Node) -> None:
        self.op, self.node, self.labels = op, node, required(node, 1)
        self.scores = required(node)
        self.reduction = node.attributes.get_string("reduction", "mean")
        self.weights = optional(node, 2)
        self.trains_weights = self.weights in op.active
        self.counts_all = self.weights is None and "ignore_index" not in node.attributes
        self.chosen = self._chosen(op.Unsqueeze(self.labels, [1]))
        self.factors = op.widened(op.cast(self.chosen, self.scores))
        self.class_weights = None
        if self.weights is not None:
            self.class_weights = self._along_classes(self.weights)
            self.factors = op.Where(self.chosen, op.widened(self.class_weights), 0.0)

    def to_log_probabilities(self, dL: ir.Value) -> ir.Value:
        """dP = -w·dL at the labels, 0 elsewhere."""
        return self.op.cast(self.op.Mul(self.op.Neg(self._share(dL)), self.factors), dL)

    def to_logits(self, dL: ir.Value, shares: ir.Value) -> ir.Value:
        """dX = dP - exp(P)·Σ dP = dL·(w·exp(P) - w at the label), exp(P) being the shares."""
        op = self.op
        if not self.counts_all:
            shares = op.Mul(shares, op.ReduceSum(self.factors, [1]))
        return op.Mul(self._share(dL), op.Sub(shares, self.factors))

    def to_weights(self, dL: ir.Value, P: ir.Value) -> ir.Value:
        """dw = -Σ P·dL over the elements with the label; for a mean, of P less its mean, -L."""
        assert self.class_weights is not None and self.weights is not None
        op, P = self.op, self.op.widened(P)
        P = self._centred(P) if self.reduction == "mean" else P
        each = op.Mul(P, self._share(dL))
        picked = op.unbroadcast(op.Where(self.chosen, each, 0.0), self.class_weights)
        return op.cast(op.Neg(op.reshape(picked, self.weights)), dL)

    def _chosen(self, labels: ir.Value) -> ir.Value:
        """Return BOOL[N,C,…]: whether an element has the class as its label and counts."""
        op = self.op
        numbers = op.arange(op.dim(self.scores, 1))
        chosen = op.Equal(labels, op.cast(self._along_classes(numbers), labels))
        if "ignore_index" not in self.node.attributes:
            return chosen
        ignored = op.constant(self.node.attributes.get_int("ignore_index", 0), labels.dtype)
        return op.And(chosen, op.Not(op.Equal(labels, ignored)))

    def _along_classes(self, values: ir.Value) -> ir.Value:
        """Give a vector with an element for each class the axes that come after the classes."""
        op, count = self.op, rank(self.scores)
        if count is None:
            ones = op.Expand(1, op.Sub(op.Shape(op.Shape(self.scores)), [2]))
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

    def _centred(self, P: ir.Value) -> ir.Value:
        """Return P less its mean, which is -L but for rounding: that is in the mean of P + L."""
        op = self.op
        near = op.Where(self.chosen, op.Add(P, op.widened(self.node.outputs[0])), 0.0)
        mean = op.Div(op.ReduceSum(op.Mul(near, self.factors), keepdims=0), self._total())
        return op.Sub(near, mean)

    def _total(self) -> ir.Value:
        """Return Σ w, or 1 where that is 0."""
        op, like = self.op, self.factors
        if self.counts_all:
            count = size(self.labels)
            return (
                op.cast(op.Size(self.labels), like)
                if count is None
                else op.constant(float(count), like.dtype)
            )
        total = op.ReduceSum(like, keepdims=0)
        return op.Where(op.cast(total, ir.DataType.BOOL), total, 1.0)

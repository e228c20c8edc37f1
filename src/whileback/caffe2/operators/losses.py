"""Cross entropies: one number for each example."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.entropies import bounded, logarithm, picked
from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.operators.shapes import matrix
from whileback.caffe2.operators.totals import mean
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.shapes import rank


@lowering("CrossEntropy")
def cross_entropy(op: Emitter, node: Operator) -> ir.Value:
    """Y = -Σ T·log X of each row."""
    X, T = node.tensors(2)
    products = op.Mul(logarithm(op, X), op.reshape(T, X))
    return op.Neg(op.ReduceSum(products, [1], keepdims=0))


@lowering("CrossEntropyGradient")
def cross_entropy_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = -dY·T/X."""
    X, T, dY = node.tensors(3)
    return op.Neg(op.Mul(op.Div(op.reshape(T, X), bounded(op, X)), op.Unsqueeze(dY, [1])))


@lowering("LabelCrossEntropy")
def label_cross_entropy(op: Emitter, node: Operator) -> ir.Value:
    """Y = -log X at the label of each row."""
    X, labels = node.tensors(2)
    return op.Neg(op.Squeeze(logarithm(op, picked(op, _rows(op, X), labels)), [1]))


def _rows(op: Emitter, X: ir.Value) -> ir.Value:
    """Return the probabilities of each example as a row; a vector is one."""
    return op.Unsqueeze(X, [0]) if rank(X) == 1 else matrix(op, X, 1)


@lowering("LabelCrossEntropyGradient")
def label_cross_entropy_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = -dY/X at the labels, 0 elsewhere."""
    X, labels, dY = node.tensors(3)
    chosen = bounded(op, picked(op, _rows(op, X), labels))
    dchosen = op.Neg(op.Div(op.Unsqueeze(dY, [1]), chosen))
    return op.pullback(lambda op, X: picked(op, _rows(op, X), labels), [X], [dchosen])


@gradient_operator("CrossEntropy", "LabelCrossEntropy")
def cross_entropy_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str | None]:
    """dX = <operator>Gradient(X, T, dY); labels have no gradient."""
    X, T = op.input
    return [*grad.emit(f"{op.type}Gradient", [X, T, dys[0]], of=[X], like=op), None]


@lowering("SigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(op: Emitter, node: Operator) -> ir.Value:
    """Y = mean of T·log(1 + exp(-X)) + (1 - T)·log(1 + exp(X)) over the last axis.

    `unjoined_lr_loss` has -T·X as its first part, `log_D_trick` the first one less itself for
    T = 0: (2T - 1)·log(1 + exp(-X)).
    """
    X, T = node.tensors(2)
    log_d, unjoined = (node.args.bool(name, False) for name in ("log_D_trick", "unjoined_lr_loss"))
    if log_d and unjoined:
        raise NetDefError(
            f"{label(node.proto)} has both log_D_trick and unjoined_lr_loss. Choose one."
        )
    if log_d:
        losses = op.Mul(op.Sub(op.Mul(T, 2.0), 1.0), op.Softplus(op.Neg(X)))
    elif unjoined:
        losses = op.Sub(op.Mul(op.Sub(1.0, T), op.Softplus(X)), op.Mul(T, X))
    else:
        losses = _binary_entropy(op, X, T)
    return op.ReduceMean(losses, [-1], keepdims=0)


def _binary_entropy(op: Emitter, X: ir.Value, T: ir.Value) -> ir.Value:
    """Return the cross entropy of T and the sigmoid of X: large logits lose no digits."""
    positive, negative = op.Softplus(op.Neg(X)), op.Softplus(X)
    return op.Add(op.Mul(T, positive), op.Mul(op.Sub(1.0, T), negative))


@lowering("WeightedSigmoidCrossEntropyWithLogits")
def weighted_sigmoid_cross_entropy(op: Emitter, node: Operator) -> ir.Value:
    """Y = mean of weight·cross entropy over the last axis."""
    X, T, weights = node.tensors(3)
    return op.ReduceMean(op.Mul(_binary_entropy(op, X, T), weights), [-1], keepdims=0)


@lowering("BernoulliJSD")
def bernoulli_jsd(op: Emitter, node: Operator) -> ir.Value:
    """Y = H((X + T)/2) - (H(X) + H(T))/2, where H(p) = -p·log p - (1 - p)·log(1 - p)."""
    X, T = node.tensors(2)
    middle = op.Mul(op.Add(X, T), 0.5)
    apart = op.Add(_entropy(op, X), _entropy(op, T))
    return op.Sub(_entropy(op, middle), op.Mul(apart, 0.5))


def _entropy(op: Emitter, p: ir.Value) -> ir.Value:
    q = op.Sub(1.0, p)
    return op.Neg(op.Add(op.Mul(p, logarithm(op, p)), op.Mul(q, logarithm(op, q))))


replayed_gradient("dY0 X0 X1", "X0", "BernoulliJSD", "SigmoidCrossEntropyWithLogits")
replayed_gradient("dY0 X0 X1 X2", "X0", "WeightedSigmoidCrossEntropyWithLogits")


@lowering("MakeTwoClass")
def make_two_class(op: Emitter, node: Operator) -> ir.Value:
    """Y = (1 - X, X) along a new last axis."""
    X = op.Unsqueeze(*node.tensors(1), [-1])
    return op.Concat(op.Sub(1.0, X), X, axis=-1)


@lowering("MakeTwoClassGradient")
def make_two_class_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = the second part of dY minus the first."""
    (dY,) = node.tensors(1)
    signs = op.constant([-1.0, 1.0], dY.dtype)
    return op.ReduceSum(op.Mul(dY, signs), [-1], keepdims=0)


@gradient_operator("MakeTwoClass")
def make_two_class_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = MakeTwoClassGradient(dY)."""
    return grad.emit("MakeTwoClassGradient", dys, of=op.input, like=op)


@lowering("Perplexity")
def perplexity(op: Emitter, node: Operator) -> ir.Value:
    """Y = exp(-mean of log X)."""
    return op.Exp(op.Neg(mean(op, op.Log(*node.tensors(1)))))


@gradient_operator("Perplexity")
def perplexity_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dX = -dY·Y/(X·number of elements)."""
    X, Y = op.input[0], op.output[0]
    product = grad.add("Mul", [dys[0], Y], f"{Y}_product")
    share = grad.add("AveragedLossGradient", [X, product], f"{X}_share")
    return grad.add("Negative", [grad.add("Div", [share, X], f"{X}_quotient")], f"{X}_grad")

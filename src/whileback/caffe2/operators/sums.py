"""Operators that combine any number of tensors of one shape."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


def _total(op: Emitter, terms: Sequence[ir.Value]) -> ir.Value:
    total, *rest = terms
    for term in rest:
        total = op.Add(total, term)
    return total


@lowering("Sum", "SumInt")
def sum_(op: Emitter, node: Operator) -> ir.Value:
    """Y = X1 + X2 + …"""
    return _total(op, node.tensors(len(node.inputs)))


@gradient_operator("Sum")
def sum_maker(_: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """Every input's gradient is dY."""
    return [dys[0]] * len(op.input)


@lowering("SumRelu")
def sum_relu(op: Emitter, node: Operator) -> ir.Value:
    """Y = max(X1 + X2 + …, 0)."""
    return op.Relu(sum_(op, node))


@gradient_operator("SumRelu")
def sum_relu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """Every input's gradient is dY where Y > 0."""
    return grad.emit("ReluGradient", [op.output[0], dys[0]], of=op.output, like=op) * len(op.input)


@lowering("Mean")
def mean(op: Emitter, node: Operator) -> ir.Value:
    """Y = (X1 + … + Xn)/n."""
    return op.Mul(sum_(op, node), 1 / len(node.inputs))


@lowering("MeanGradient")
def mean_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY/n, for each of the n inputs."""
    (dY,) = node.tensors(1)
    return [op.Mul(dY, 1 / len(node.outputs))] * len(node.outputs)


@gradient_operator("Mean")
def mean_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """Every input's gradient is dY/n."""
    count = len(op.input)
    return [grad.add("Scale", dys, f"{op.input[0]}_grad", scale=1 / count)] * count


@lowering("Max", "Min")
def extreme(op: Emitter, node: Operator) -> ir.Value:
    """Y is the largest (smallest) of X1, X2 …"""
    return op.emit(node.type, node.tensors(len(node.inputs)))[0]


@lowering("MaxGradient", "MinGradient")
def extreme_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY where X = Y, else 0; equal ones get it all, each."""
    Y, dY, *inputs = node.tensors(len(node.inputs))
    return [op.Where(op.Equal(X, Y), dY, 0.0) for X in inputs]


@gradient_operator("Max", "Min")
def extreme_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dY goes to the input that is equal to Y; equal ones share it equally.

    XGradient gives it to each, which is too much; for ones, it tells how many they are.
    """
    if len(op.input) == 1:
        return [dys[0]]
    Y, inputs = op.output[0], list(op.input)
    ones = grad.add("ConstantFill", [Y], f"{Y}_ones", value=1.0)
    marks = grad.emit(f"{op.type}Gradient", [Y, ones, *inputs], of=inputs, like=op)
    count = grad.add("Sum", marks, f"{Y}_count")
    share = grad.add("Div", [dys[0], count], f"{Y}_share")
    return grad.emit(f"{op.type}Gradient", [Y, share, *inputs], of=inputs, like=op)


@lowering("WeightedSum")
def weighted_sum(op: Emitter, node: Operator) -> ir.Value:
    """Y = w1·X1 + w2·X2 + …"""
    inputs = node.tensors(len(node.inputs))
    pairs = zip(inputs[::2], inputs[1::2], strict=True)
    return _total(op, [op.Mul(X, op.Reshape(w, [])) for X, w in pairs])


@lowering("WeightedSumGradient")
def weighted_sum_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = w·dY for each X, and with `grad_on_w` dw = Σ X·dY for each w."""
    dY, *inputs = node.tensors(len(node.inputs))
    found = [op.Mul(dY, op.Reshape(w, [])) for w in inputs[1::2]]
    if node.args.bool("grad_on_w", False):
        totals = [op.ReduceSum(op.Mul(X, dY), keepdims=0) for X in inputs[::2]]
        found += [op.Reshape(total, [1]) for total in totals]
    return found


@gradient_operator("WeightedSum")
def weighted_sum_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX1, dX2 …, dw1, dw2 … = WeightedSumGradient(dY, X1, w1, X2, w2 …)."""
    names = [f"{blob}_grad" for blob in (*op.input[::2], *op.input[1::2])]
    found = grad.add_all("WeightedSumGradient", [dys[0], *op.input], names, grad_on_w=1)
    count = len(found) // 2
    return [found[i // 2 + (i % 2) * count] for i in range(len(found))]

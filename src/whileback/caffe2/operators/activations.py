"""Activation functions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Gradients, Operator, gradient_operator, lowering
from whileback.caffe2.operators.replay import replayed_gradient
from whileback.caffe2.operators.shapes import known_rank
from whileback.caffe2.reading.emitter import Emitter
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

replayed_gradient("Y0 dY0", "X0", "HardSigmoid", "Relu", "ReluN", "Sigmoid", "Softplus", "Tanh")
replayed_gradient("X0 dY0", "X0", "Softsign")
replayed_gradient("dY0 X0", "X0", "Gelu")
replayed_gradient("X0 Y0 dY0", "X0", "Mish", "Swish")


@lowering("Mish", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
def activation(op: Emitter, node: Operator) -> ir.Value:
    """Y = f(X), where ONNX has the function under the same name."""
    return op.emit(node.type, node.tensors(1))[0]


@lowering("ReluGradient")
def relu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where Y > 0, else 0."""
    Y, dY = node.tensors(2)
    return op.Where(op.Greater(Y, 0.0), dY, 0.0)


@lowering("SigmoidGradient")
def sigmoid_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·Y·(1 - Y)."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Mul(Y, op.Sub(1.0, Y)))


@lowering("TanhGradient")
def tanh_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·(1 - Y²)."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Sub(1.0, op.Mul(Y, Y)))


@lowering("SoftplusGradient")
def softplus_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·(1 - exp(-Y))."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Sub(1.0, op.Exp(op.Neg(Y))))


@lowering("ReluN")
def relu_n(op: Emitter, node: Operator) -> ir.Value:
    """Y = min(max(X, 0), n)."""
    (X,) = node.tensors(1)
    limit = node.args.float("n", 6.0)
    return op.Clip(X, op.constant(0.0, X.dtype), op.constant(limit, X.dtype))


@lowering("ReluNGradient")
def relu_n_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where 0 < Y < n, else 0."""
    return _between(op, node, node.args.float("n", 6.0))


def _between(op: Emitter, node: Operator, high: float) -> ir.Value:
    """Return dY where 0 < Y < high, else 0."""
    Y, dY = node.tensors(2)
    return op.Where(op.And(op.Greater(Y, 0.0), op.Less(Y, high)), dY, 0.0)


@lowering("HardSigmoid")
def hard_sigmoid(op: Emitter, node: Operator) -> ir.Value:
    """Y = min(max(alpha·X + beta, 0), 1)."""
    alpha, beta = node.args.float("alpha", 0.2), node.args.float("beta", 0.5)
    return op.HardSigmoid(*node.tensors(1), alpha=alpha, beta=beta)


@lowering("HardSigmoidGradient")
def hard_sigmoid_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = alpha·dY where 0 < Y < 1, else 0."""
    return op.Mul(_between(op, node, 1.0), node.args.float("alpha", 0.2))


@lowering("LeakyRelu")
def leaky_relu(op: Emitter, node: Operator) -> ir.Value:
    """Y = X where X ≥ 0, else alpha·X."""
    return op.LeakyRelu(*node.tensors(1), alpha=node.args.float("alpha", 0.01))


@lowering("LeakyReluGradient")
def leaky_relu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where Y ≥ 0, else alpha·dY."""
    Y, dY = node.tensors(2)
    scaled = op.Mul(dY, node.args.float("alpha", 0.01))
    return op.Where(op.GreaterOrEqual(Y, 0.0), dY, scaled)


@gradient_operator("LeakyRelu")
def leaky_relu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = LeakyReluGradient(Y, dY), which reads a sign: X's own if Y does not have the same."""
    positive = Arguments(op).float("alpha", 0.01) > 0
    sign = op.output[0] if positive else op.input[0]
    return grad.emit("LeakyReluGradient", [sign, dys[0]], of=op.input, like=op)


@lowering("Elu")
def elu(op: Emitter, node: Operator) -> ir.Value:
    """Y = X where X ≥ 0, else alpha·(exp(X) - 1)."""
    return op.Elu(*node.tensors(1), alpha=node.args.float("alpha", 1.0))


@lowering("EluGradient")
def elu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY where Y ≥ 0, else dY·(Y + alpha)."""
    Y, dY = node.tensors(2)
    below = op.Mul(dY, op.Add(Y, node.args.float("alpha", 1.0)))
    return op.Where(op.GreaterOrEqual(Y, 0.0), dY, below)


# Caffe2's defaults.
SELU = {"alpha": 1.6732632423543772, "scale": 1.0507009873554804}


@lowering("Selu")
def selu(op: Emitter, node: Operator) -> ir.Value:
    """Y = scale·X where X > 0, else scale·alpha·(exp(X) - 1)."""
    alpha, scale = (node.args.float(name, default) for name, default in SELU.items())
    return op.Selu(*node.tensors(1), alpha=alpha, gamma=scale)


@lowering("SeluGradient")
def selu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = scale·dY where Y > 0, else dY·(Y + scale·alpha)."""
    Y, dY = node.tensors(2)
    alpha, scale = (node.args.float(name, default) for name, default in SELU.items())
    below = op.Mul(dY, op.Add(Y, scale * alpha))
    return op.Where(op.Greater(Y, 0.0), op.Mul(dY, scale), below)


@gradient_operator("Elu", "Selu")
def elu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = XGradient(Y, dY); where alpha is not positive, Y's sign does not tell X's."""
    args, X, Y = Arguments(op), op.input[0], op.output[0]
    default = SELU["alpha"] if op.type == "Selu" else 1.0
    alpha = args.float("alpha", default)
    if alpha > 0:
        return grad.emit(f"{op.type}Gradient", [Y, dys[0]], of=[X], like=op)
    scale = args.float("scale", SELU["scale"]) if op.type == "Selu" else 1.0
    mask = grad.add("GT", [X, grad.zeros_like(X)], f"{X}_mask")
    shift = grad.add("ConstantFill", [X], f"{X}_shift", value=alpha * scale)
    slope = grad.add("Add", [Y, shift], f"{X}_slope")
    below = grad.add("Mul", [dys[0], slope], f"{X}_below")
    above = grad.add("Scale", [dys[0]], f"{X}_above", scale=scale)
    return [grad.add("Where", [mask, above, below], f"{X}_grad")]


@lowering("ThresholdedRelu")
def thresholded_relu(op: Emitter, node: Operator) -> ir.Value:
    """Y = X where X > alpha, else 0."""
    return op.ThresholdedRelu(*node.tensors(1), alpha=node.args.float("alpha", 1.0))


@lowering("ThresholdedReluGradient")
def thresholded_relu_gradient(op: Emitter, node: Operator) -> ir.Value:
    """dX = dY·sign(Y), which is dY where Y > 0 unless alpha is negative."""
    Y, dY = node.tensors(2)
    return op.Mul(dY, op.Sign(Y))


@gradient_operator("ThresholdedRelu")
def thresholded_relu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX = dY where X > alpha; unless alpha is negative, Y tells where that is."""
    X, alpha = op.input[0], Arguments(op).float("alpha", 1.0)
    if alpha >= 0:
        return grad.emit("ThresholdedReluGradient", [op.output[0], dys[0]], of=[X], like=op)
    threshold = grad.add("ConstantFill", [X], f"{X}_threshold", value=alpha)
    above = grad.add("Sub", [X, threshold], f"{X}_above")
    return [grad.add("ReluGradient", [above, dys[0]], f"{X}_grad")]


@lowering("Swish")
def swish(op: Emitter, node: Operator) -> ir.Value:
    """Y = X/(1 + exp(-X))."""
    (X,) = node.tensors(1)
    return op.Mul(X, op.Sigmoid(X))


@lowering("Gelu")
def gelu(op: Emitter, node: Operator) -> ir.Value:
    """Y = X·Φ(X), Φ the normal distribution, or its tanh form if `fast_gelu`."""
    fast = node.args.bool("fast_gelu", False)
    return op.Gelu(*node.tensors(1), approximate="tanh" if fast else "none")


@lowering("PRelu")
def prelu(op: Emitter, node: Operator) -> ir.Value:
    """Y = X where X > 0, else W·X; W holds one slope, or one for each channel."""
    X, W = node.tensors(2)
    return op.PRelu(X, op.Reshape(W, _slope_shape(node, X)))


@lowering("PReluGradient")
def prelu_gradient(op: Emitter, node: Operator) -> list[ir.Value]:
    """dX = dY where X > 0, else W·dY; dW = Σ X·dY over the elements of its channel below 0."""
    _, dY, X, W = node.tensors(4)
    shape = _slope_shape(node, X)
    return op.pullback(lambda op, X, W: op.PRelu(X, op.Reshape(W, shape)), [X, W], [dY])


def _slope_shape(node: Operator, X: ir.Value) -> list[int]:
    """Return the shape in which slopes lie along the channels, the second axis or the last."""
    if node.args.string("order", "NCHW") == "NHWC":
        return [-1]
    return [-1] + [1] * (known_rank(node, X) - 2)


@gradient_operator("PRelu")
def prelu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> list[str]:
    """dX, dW = PReluGradient(Y, dY, X, W)."""
    return grad.emit("PReluGradient", [op.output[0], dys[0], *op.input], of=op.input, like=op)


@lowering("Glu")
def glu(op: Emitter, node: Operator) -> ir.Value:
    """Y = A·sigmoid(B), A and B the halves of X along the axis `dim`."""
    (X,) = node.tensors(1)
    A, B = op.emit("Split", [X], {"axis": node.args.int("dim", -1), "num_outputs": 2}, outputs=2)
    return op.Mul(A, op.Sigmoid(B))


@gradient_operator("Glu")
def glu_maker(grad: Gradients, op: OperatorDef, dys: Sequence[str]) -> str:
    """dA = dY·sigmoid(B) and dB = dY·A·sigmoid'(B), one behind the other."""
    X, axis = op.input[0], Arguments(op).int("dim", -1)
    A, B = grad.add_all("Split", [X], [f"{X}_values", f"{X}_gates"], axis=axis)
    gate = grad.add("Sigmoid", [B], f"{X}_gate")
    dA = grad.add("Mul", [dys[0], gate], f"{X}_values_grad")
    dgate = grad.add("Mul", [dys[0], A], f"{X}_gate_grad")
    dB = grad.add("SigmoidGradient", [gate, dgate], f"{X}_gates_grad")
    names = [f"{X}_grad", f"{X}_grad_dims"]
    return grad.add_all("Concat", [dA, dB], names, axis=axis)[0]

"""Optimizers: one step of each, on whole tensors.

A step is written as a function of its own, which the optimizers of single rows use as well. The
rate `lr` is added with its sign, as in Caffe2, except by MomentumSGDUpdate, which subtracts it.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label

__all__ = [
    "adadelta_step",
    "adagrad_step",
    "adam_rate",
    "adam_step",
    "decayed",
    "ftrl_alpha",
    "ftrl_step",
    "momentum_step",
    "scalar",
    "shrink",
    "storm_rate",
    "storm_step",
]


def scalar(op: Emitter, value: ir.Value) -> ir.Value:
    """Return a tensor of one element without axes, so that nothing takes axes from it."""
    return op.Reshape(value, [])


def blend(op: Emitter, old: ir.Value, new: ir.Value, keep: float) -> ir.Value:
    """Return keep·old + (1 - keep)·new."""
    return op.Add(op.Mul(old, keep), op.Mul(new, 1.0 - keep))


def shrink(op: Emitter, value: ir.Value, by: float) -> ir.Value:
    """Return the value moved towards 0 by `by`: 0 where it is not farther away."""
    return op.Shrink(value, lambd=by, bias=by)


def decayed(op: Emitter, node: Operator, w: ir.Value, g: ir.Value) -> ir.Value:
    """Return g + weight_decay·w."""
    weight = node.args.float("weight_decay", 0.0)
    return op.Add(g, op.Mul(w, weight)) if weight else g


def momentum_step(
    op: Emitter, node: Operator, g: ir.Value, m: ir.Value, lr: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """m ← µ·m + lr·g, µ = momentum; the step is m, or (1 + µ)·m - µ·old m; returns step, m."""
    momentum = node.args.float("momentum", 0.0)
    new = op.Add(op.Mul(m, momentum), op.Mul(g, lr))
    if not node.args.bool("nesterov", False):
        return new, new
    return op.Sub(op.Mul(new, 1.0 + momentum), op.Mul(m, momentum)), new


@lowering("MomentumSGD", "MomentumSGDUpdate")
def momentum_sgd(op: Emitter, node: Operator) -> list[ir.Value]:
    """g, m ← the step; MomentumSGDUpdate also w ← w - the step."""
    g, m, lr, *w = node.tensors(4 if node.type == "MomentumSGDUpdate" else 3)
    step, new = momentum_step(op, node, g, m, scalar(op, lr))
    return [step, new, *(op.Sub(each, step) for each in w)]


def adagrad_step(
    op: Emitter, node: Operator, w: ir.Value, h: ir.Value, g: ir.Value, lr: ir.Value
) -> list[ir.Value]:
    """h ← decay·h + g², rate = lr / (√h + epsilon), w ← w + rate·g; returns w, h, rate, rate·g."""
    g = decayed(op, node, w, g)
    decay = node.args.float("decay", 1.0)
    h = op.Add(h if decay == 1.0 else op.Mul(h, decay), op.Mul(g, g))
    rate = op.Div(lr, op.Add(op.Sqrt(h), node.args.float("epsilon", 1e-5)))
    update = op.Mul(rate, g)
    return [op.Add(w, update), h, rate, update]


@lowering("Adagrad")
def adagrad(op: Emitter, node: Operator) -> list[ir.Value]:
    """See `adagrad_step`."""
    w, h, g, lr = node.tensors(4)
    return adagrad_step(op, node, w, h, g, scalar(op, lr))


def adam_rate(op: Emitter, node: Operator, iteration: ir.Value) -> ir.Value:
    """Return the correction √(1 - beta2ᵗ) / (1 - beta1ᵗ), t being the iteration and one."""
    t = op.cast(op.Add(scalar(op, iteration), 1), ir.DataType.FLOAT)
    first = op.Sub(1.0, op.Pow(node.args.float("beta1", 0.9), t))
    second = op.Sub(1.0, op.Pow(node.args.float("beta2", 0.999), t))
    return op.Div(op.Sqrt(second), first)


def adam_step(
    op: Emitter,
    node: Operator,
    moments: tuple[ir.Value, ir.Value],
    g: ir.Value,
    square: ir.Value,
    rate: ir.Value,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """m ← β₁·m + (1 - β₁)·g, v ← β₂·v + (1 - β₂)·g²; returns m, v, rate·m / (√v + epsilon)."""
    m = blend(op, moments[0], g, node.args.float("beta1", 0.9))
    v = blend(op, moments[1], square, node.args.float("beta2", 0.999))
    root = op.Add(op.Sqrt(v), node.args.float("epsilon", 1e-5))
    return m, v, op.Div(op.Mul(m, rate), root)


@lowering("Adam")
def adam(op: Emitter, node: Operator) -> list[ir.Value]:
    """W ← w + lr·direction (see `adam_step`); returns w, m, v, direction."""
    w, m, v, g, lr, iteration = node.tensors(6)
    rate = adam_rate(op, node, iteration)
    m, v, direction = adam_step(op, node, (m, v), g, op.Mul(g, g), rate)
    return [op.Add(w, op.Mul(direction, scalar(op, lr))), m, v, direction]


def adadelta_step(
    op: Emitter, node: Operator, state: Sequence[ir.Value], g: ir.Value, lr: ir.Value
) -> list[ir.Value]:
    """m ← blend(m, g²), s = g·√((d + ε) / (m + ε)), w ← w + lr·s, d ← blend(d, s²)."""
    w, m, d = state
    decay, epsilon = node.args.float("decay", 0.95), node.args.float("epsilon", 1e-5)
    m = blend(op, m, op.Mul(g, g), decay)
    step = op.Mul(g, op.Div(op.Sqrt(op.Add(d, epsilon)), op.Sqrt(op.Add(m, epsilon))))
    return [op.Add(w, op.Mul(step, lr)), m, blend(op, d, op.Mul(step, step), decay)]


@lowering("Adadelta")
def adadelta(op: Emitter, node: Operator) -> list[ir.Value]:
    """See `adadelta_step`."""
    w, m, d, g, lr = node.tensors(5)
    return adadelta_step(op, node, [w, m, d], g, scalar(op, lr))


@lowering("RmsProp")
def rms_prop(op: Emitter, node: Operator) -> list[ir.Value]:
    """s ← blend(s, g²), m ← momentum·m + lr·g / √(s + epsilon); returns m, s, m."""
    g, s, m, lr = node.tensors(4)
    s = blend(op, s, op.Mul(g, g), node.args.float("decay", 0.9))
    root = op.Sqrt(op.Add(s, node.args.float("epsilon", 1e-5)))
    scaled = op.Div(op.Mul(g, scalar(op, lr)), root)
    m = op.Add(op.Mul(m, node.args.float("momentum", 0.0)), scaled)
    return [m, s, m]


def ftrl_alpha(op: Emitter, node: Operator, given: ir.Value | None) -> ir.Value:
    """Return the argument `alpha`, or the optional input that stands for it."""
    if given is not None:
        return scalar(op, given)
    return op.constant(node.args.float("alpha", 0.005), ir.DataType.FLOAT)


def _ftrl_state(
    op: Emitter, w: ir.Value, nz: ir.Value, g: ir.Value, alpha: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """n ← n + g², z ← z + g - (√new n - √n) / alpha·w; returns √n, z, and both as one tensor."""
    n, z = (op.Squeeze(each, [-1]) for each in op.emit("Split", [nz, [1, 1]], {"axis": -1}, 2))
    new = op.Add(n, op.Mul(g, g))
    root = op.Sqrt(new)
    z = op.Sub(op.Add(z, g), op.Mul(op.Div(op.Sub(root, op.Sqrt(n)), alpha), w))
    return root, z, op.Concat(op.Unsqueeze(new, [-1]), op.Unsqueeze(z, [-1]), axis=-1)


def _ftrl_weight(
    op: Emitter, node: Operator, shrunk: ir.Value, root: ir.Value, alpha: ir.Value
) -> ir.Value:
    """Return -shrunk z / ((beta + √n) / alpha + lambda2)."""
    slope = op.Div(op.Add(root, node.args.float("beta", 1.0)), alpha)
    return op.Neg(op.Div(shrunk, op.Add(slope, node.args.float("lambda2", 0.001))))


def ftrl_step(
    op: Emitter, node: Operator, w: ir.Value, nz: ir.Value, g: ir.Value, alpha: ir.Value
) -> list[ir.Value]:
    """W is 0 where |z| ≤ lambda1, else -(z - lambda1·sign z) / (…); returns w, nz."""
    root, z, nz = _ftrl_state(op, w, nz, g, alpha)
    shrunk = shrink(op, z, node.args.float("lambda1", 0.001))
    return [_ftrl_weight(op, node, shrunk, root, alpha), nz]


@lowering("Ftrl")
def ftrl(op: Emitter, node: Operator) -> list[ir.Value]:
    """See `ftrl_step`; the last axis of nz has n and z."""
    w, nz, g = node.tensors(3)
    return ftrl_step(op, node, w, nz, g, ftrl_alpha(op, node, node.optional(3)))


@lowering("GFtrl")
def gftrl(op: Emitter, node: Operator) -> list[ir.Value]:
    """As Ftrl, but whole columns are 0 or shrunk: those with |z| ≤ lambda1·√length are 0."""
    w, nz, g = node.tensors(3)
    alpha = ftrl_alpha(op, node, node.optional(3))
    root, z, nz = _ftrl_state(op, w, nz, g, alpha)
    zero = op.constant(0.0, ir.DataType.FLOAT)
    rows = op.cast(op.dim(z, 0), ir.DataType.FLOAT)
    limit = op.Mul(op.Sqrt(rows), node.args.float("lambda1", 0.001))
    length = op.ReduceL2(z, [0], keepdims=1)
    kept = op.Where(op.Greater(length, limit), op.Sub(1.0, op.Div(limit, length)), zero)
    return [_ftrl_weight(op, node, op.Mul(z, kept), root, alpha), nz]


@lowering("Lars")
def lars(op: Emitter, node: Operator) -> ir.Value:
    """trust / (offset + |g| / |w| + decay), 1 where w = 0; not below lr_min, nor above lr_max."""
    w, g, decay, trust, highest = node.tensors(5)
    length = op.ReduceL2(w, keepdims=0)
    ratio = op.Add(op.Div(op.ReduceL2(g, keepdims=0), length), node.args.float("offset", 0.5))
    rate = op.Div(trust, op.Add(ratio, decay))
    rate = op.Where(op.Greater(length, 0.0), rate, op.constant(1.0, ir.DataType.FLOAT))
    bounded = op.Max(op.Min(rate, highest), node.args.float("lr_min", 0.0))
    return op.Reshape(bounded, [1])


@lowering("Wngrad")
def wngrad(op: Emitter, node: Operator) -> list[ir.Value]:
    """rate = lr / (b + epsilon), w ← w + rate·g, b ← b + |g|² / (b + epsilon)."""
    w, b, g, lr = node.tensors(4)
    base = op.Add(b, node.args.float("epsilon", 1e-5))
    rate = op.Div(scalar(op, lr), base)
    update = op.Mul(g, scalar(op, rate))
    new = op.Add(b, op.Div(op.ReduceSumSquare(g, keepdims=0), base))
    return [op.Add(w, update), new, rate, update]


def storm_rate(
    op: Emitter, node: Operator, sum_square: ir.Value, g: ir.Value, lr: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """s ← s + |g|²; returns the rate lr / ∛(s + beta), and s."""
    new = op.Add(sum_square, op.ReduceSumSquare(g, keepdims=0))
    root = op.Pow(op.Add(scalar(op, new), node.args.float("beta", 0.1)), 1 / 3)
    return op.Div(scalar(op, lr), root), new


def storm_step(
    op: Emitter, node: Operator, w: ir.Value, m: ir.Value, g: ir.Value, rate: ir.Value
) -> list[ir.Value]:
    """m ← g + (1 - momentum·rate²)·(m - g), w ← w + rate·m; returns w, m."""
    weight = op.Mul(op.Mul(rate, rate), node.args.float("momentum", 10.0))
    m = op.Add(g, op.Mul(op.Sub(m, g), op.Sub(1.0, weight)))
    return [op.Add(w, op.Mul(m, rate)), m]


@lowering("Storm")
def storm(op: Emitter, node: Operator) -> list[ir.Value]:
    """See `storm_rate` and `storm_step`; returns w, m, s."""
    w, m, sum_square, g, lr = node.tensors(5)
    rate, new = storm_rate(op, node, sum_square, g, lr)
    return [*storm_step(op, node, w, m, g, rate), new]


@lowering("LearningRateAdaption")
def learning_rate_adaption(op: Emitter, node: Operator) -> ir.Value:
    """lr·(1 - lr_alpha·cosine(g, e)), or lr - lr_alpha·(g·e) if not normalized_lr_adaption."""
    lr, g, e = node.tensors(3)
    alpha = node.args.float("lr_alpha", 0.01)
    product = op.ReduceSum(op.Mul(g, e), keepdims=0)
    if not node.args.bool("normalized_lr_adaption", True):
        return op.Sub(lr, op.Mul(product, alpha))
    lengths = [op.Max(op.ReduceL2(each, keepdims=0), 1e-12) for each in (g, e)]
    cosine = op.Div(product, op.Mul(*lengths))
    return op.Mul(lr, op.Sub(1.0, op.Mul(cosine, alpha)))


@lowering("WeightScale")
def weight_scale(op: Emitter, node: Operator) -> ir.Value:
    """scale·w in every stepsize-th iteration before upper_bound_iter, else w."""
    w, iteration = node.tensors(2)
    count, step = op.Add(scalar(op, iteration), 1), node.args.int("stepsize", 2**62)
    if step == 0:
        raise NetDefError(f"{label(node.proto)} has the stepsize 0. Make it 1 or more.")
    due = op.Equal(op.Mod(count, step), 0)
    early = op.Less(count, node.args.int("upper_bound_iter", 2**62))
    scaled = op.Mul(w, node.args.float("scale", 1.0))
    return op.Where(op.And(due, early), scaled, w)

"""Learning rates as functions of the count of iterations: LearningRate and its policies.

A policy gives a factor; the rate is `base_lr` times the factor. Rates are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import onnx_ir as ir

from whileback.caffe2.operators.registry import Operator, lowering, not_differentiable
from whileback.caffe2.reading.emitter import Emitter
from whileback.errors import NetDefError, nearest
from whileback.formats.caffe2.arguments import label

not_differentiable("a learning rate depends on the count of iterations alone", "LearningRate")


@dataclass(frozen=True)
class Schedule:
    """What a policy reads: the iteration, a scalar INT64, and the arguments of some prefix."""

    op: Emitter
    node: Operator
    iteration: ir.Value
    prefix: str = ""

    @property
    def t(self) -> ir.Value:
        """The iteration as a float."""
        return self.op.cast(self.iteration, ir.DataType.FLOAT)

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an argument."""
        return float(self.node.args.float(self.prefix + name, default))

    def whole(self, name: str, default: int = 0) -> int:
        """Return an argument that counts."""
        return self.node.args.int(self.prefix + name, default)

    def period(self, name: str, default: int = 0) -> int:
        """Return an argument that is a number of iterations, at least one.

        Raises: NetDefError if it is less, or missing.
        """
        found = self.whole(name, default)
        if found < 1:
            raise NetDefError(
                f"{label(self.node.proto)} needs the argument '{self.prefix + name}' to be at "
                f"least 1; it is {found}."
            )
        return found

    def before(self, end: int, then: ir.Value | float, rest: ir.Value | float) -> ir.Value:
        """Return `then` in the iterations before `end`, and `rest` from there on."""
        is_before = self.op.Less(self.iteration, end)
        return self.op.Where(is_before, self.value(then), self.value(rest))

    def value(self, number: ir.Value | float) -> ir.Value:
        """Return a float as a tensor."""
        if isinstance(number, ir.Value):
            return number
        return self.op.constant(number, ir.DataType.FLOAT)

    def since(self, start: int) -> Schedule:
        """Return the schedule that begins at iteration `start`."""
        return replace(self, iteration=self.op.Sub(self.iteration, start))


Policy = Callable[[Emitter, Schedule], ir.Value]
policies: dict[str, Policy] = {}


def _policy(name: str) -> Callable[[Policy], Policy]:
    def register(function: Policy) -> Policy:
        policies[name] = function
        return function

    return register


@lowering("LearningRate")
def learning_rate(op: Emitter, node: Operator) -> ir.Value:
    """The rate is base_lr · factor(iteration), a scalar."""
    (count,) = node.tensors(1)
    iteration = op.Reshape(op.cast(count, ir.DataType.INT64), [])
    schedule = Schedule(op, node, iteration)
    return op.Mul(_factor(op, schedule), node.args.float("base_lr"))


def _factor(op: Emitter, schedule: Schedule, without: str = "") -> ir.Value:
    """Return the factor by the policy that the arguments name; `without` is one that may not be."""
    name = schedule.node.args.string(schedule.prefix + "policy")
    known = {key: policy for key, policy in policies.items() if key != without}
    if name not in known:
        raise NetDefError(
            f"{label(schedule.node.proto)} has an unknown {schedule.prefix}policy '{name}'; "
            f"{nearest(name, known)}"
        )
    return known[name](op, schedule)


@_policy("fixed")
def fixed(op: Emitter, s: Schedule) -> ir.Value:
    """1."""
    return s.value(1.0)


@_policy("step")
def step(op: Emitter, s: Schedule) -> ir.Value:
    """gamma^⌊t / stepsize⌋."""
    steps = op.cast(op.Div(s.iteration, s.period("stepsize")), ir.DataType.FLOAT)
    return op.Pow(s.number("gamma"), steps)


@_policy("exp")
def exp(op: Emitter, s: Schedule) -> ir.Value:
    """gamma^t."""
    return op.Pow(s.number("gamma"), s.t)


@_policy("inv")
def inv(op: Emitter, s: Schedule) -> ir.Value:
    """(1 + gamma·t)^-power."""
    return op.Pow(op.Add(op.Mul(s.t, s.number("gamma")), 1.0), -s.number("power"))


@_policy("poly")
def poly(op: Emitter, s: Schedule) -> ir.Value:
    """(1 - t / max_iter)^power."""
    done = op.Div(s.t, float(s.period("max_iter")))
    return op.Pow(op.Sub(1.0, done), s.number("power"))


@_policy("gate")
def gate(op: Emitter, s: Schedule) -> ir.Value:
    """multiplier_1 for num_iter iterations, then multiplier_2."""
    return s.before(s.whole("num_iter"), s.number("multiplier_1", 1), s.number("multiplier_2", 1))


@_policy("alter")
def alter(op: Emitter, s: Schedule) -> ir.Value:
    """1 for active_period iterations, 0 for inactive_period, in turns."""
    active, idle = s.whole("active_period"), s.whole("inactive_period")
    first = s.whole("active_first", 1)
    turn = replace(s, iteration=op.Mod(s.iteration, max(active + idle, 1)))
    return turn.before(active, 1.0, 0.0) if first else turn.before(idle, 0.0, 1.0)


def _ramp(op: Emitter, s: Schedule, start: float, begin: int, length: int) -> ir.Value:
    """Return start + (1 - start)·(t - begin) / length."""
    done = op.Div(op.Sub(s.t, float(begin)), float(max(length, 1)))
    return op.Add(op.Mul(done, 1 - start), start)


@_policy("linearWarmup")
def linear_warmup(op: Emitter, s: Schedule) -> ir.Value:
    """From start_multiplier to 1 along a line of num_iter iterations."""
    length = s.whole("num_iter")
    return s.before(length, _ramp(op, s, s.number("start_multiplier"), 0, length), 1.0)


@_policy("constantWarmup")
def constant_warmup(op: Emitter, s: Schedule) -> ir.Value:
    """Multiplier for num_iter iterations, then 1."""
    return s.before(s.whole("num_iter"), s.number("multiplier", 0.5), 1.0)


@_policy("pieceWarmup")
def piece_warmup(op: Emitter, s: Schedule) -> ir.Value:
    """m1 before iteration n1, m2 before n2, then m3."""
    later = s.before(s.whole("n2"), s.number("m2", 0.5), s.number("m3", 0.5))
    return s.before(s.whole("n1"), s.number("m1", 0.5), later)


@_policy("hill")
def hill(op: Emitter, s: Schedule) -> ir.Value:
    """A linear warmup, then the inverse decay, but not below end_multiplier."""
    length = s.whole("num_iter")
    decayed = op.Max(inv(op, s.since(length)), s.number("end_multiplier"))
    return s.before(length, _ramp(op, s, s.number("start_multiplier"), 0, length), decayed)


@_policy("slope")
def slope(op: Emitter, s: Schedule) -> ir.Value:
    """multiplier_1 for num_iter_1 iterations, then the line to multiplier_2, but not below that."""
    first, last = s.whole("num_iter_1"), s.whole("num_iter_2")
    high, low = s.number("multiplier_1"), s.number("multiplier_2")
    gradient = (low - high) / (last - first) if last != first else 0.0
    line = op.Add(op.Mul(op.Sub(s.t, float(first)), gradient), high)
    falling = op.Max(line, low) if last != first else low
    return s.before(first, high, falling)


@_policy("cyclical")
def cyclical(op: Emitter, s: Schedule) -> ir.Value:
    """Up to max_lr in stepsize iterations and down again; the peaks shrink by decay."""
    return _cycle(op, s, s.number("max_lr", 0.005), s.period("stepsize"), s.number("decay", 1))


def _cycle(op: Emitter, s: Schedule, highest: float, half: int, decay: float) -> ir.Value:
    """Return 1 + (highest / |base_lr| - 1)·height·decay^cycle, a cycle being 2·half iterations."""
    cycle = op.Div(s.iteration, 2 * half)
    place = op.cast(op.Sub(s.iteration, op.Mul(cycle, 2 * half)), ir.DataType.FLOAT)
    height = op.Sub(1.0, op.Abs(op.Sub(op.Div(place, float(half)), 1.0)))
    shrunk = op.Pow(decay, op.cast(cycle, ir.DataType.FLOAT))
    base = s.node.args.float("base_lr")
    above = abs(highest / base) - 1 if base else 0.0
    return op.Add(op.Mul(op.Mul(height, above), shrunk), 1.0)


@_policy("cosine")
def cosine(op: Emitter, s: Schedule) -> ir.Value:
    """Half a wave from max_lr to min_lr in each period; periods grow by t_mult, waves shrink."""
    return _wave(op, s, "")


def _wave(op: Emitter, s: Schedule, prefix: str) -> ir.Value:
    """Return shrink^n·(min + (max - min)/2·(1 + cos(π·place))) for the n-th period.

    Where periods grow, the n-th begins at iteration period·(t_multⁿ - 1) / (t_mult - 1).
    """
    period, growth = float(s.period(f"{prefix}period", 50)), s.number(f"{prefix}t_mult", 1.0)
    high, low = s.number(f"{prefix}max_lr", 0.5), s.number(f"{prefix}min_lr", 0.1)
    t = op.cast(s.iteration, ir.DataType.DOUBLE)
    if growth == 1.0:
        n = op.Floor(op.Div(t, period))
        place = op.Sub(op.Div(t, period), n)
    else:
        n = op.Floor(
            op.Div(op.Log(op.Add(op.Mul(t, (growth - 1) / period), 1.0)), math.log(growth))
        )
        grown = op.Pow(growth, n)
        begin = op.Mul(op.Sub(grown, 1.0), period / (growth - 1))
        place = op.Div(op.Div(op.Sub(t, begin), period), grown)
    wave = op.Add(op.Mul(op.Add(op.Cos(op.Mul(place, math.pi)), 1.0), (high - low) / 2), low)
    shrunk = op.Pow(s.number(f"{prefix}lr_shrink", 0.99), n)
    return op.cast(op.Mul(wave, shrunk), ir.DataType.FLOAT)


_LONG = 10_000_000


def _warmed(op: Emitter, s: Schedule, main: Callable[[Schedule], ir.Value]) -> ir.Value:
    """Return start_warmup_multiplier for a while, then a line to 1, then another policy."""
    start = s.number("start_warmup_multiplier", 0.1)
    constant = s.whole("constant_warmup_num_iter", _LONG)
    ramp = s.whole("linear_warmup_num_iter", _LONG)
    warm = constant + ramp
    later = s.before(warm, _ramp(op, s, start, constant, ramp), main(s.since(warm)))
    return s.before(constant, start, later)


@_policy("constantThenLinearWarmup")
def constant_then_linear_warmup(op: Emitter, s: Schedule) -> ir.Value:
    """A constant warmup, a linear one, then 1."""
    return _warmed(op, s, lambda later: later.value(1.0))


@_policy("compositeCyclical")
def composite_cyclical(op: Emitter, s: Schedule) -> ir.Value:
    """A constant warmup, a linear one, then cycles."""
    highest, decay = s.number("cyclical_max_lr", 0.05), s.number("cyclical_decay", 1)
    half = s.period("cyclical_step_size")
    return _warmed(op, s, lambda later: _cycle(op, later, highest, half, decay))


@_policy("compositeCosine")
def composite_cosine(op: Emitter, s: Schedule) -> ir.Value:
    """A constant warmup, a linear one, then waves."""
    return _warmed(op, s, lambda later: _wave(op, later, "cosine_"))


@_policy("composite")
def composite(op: Emitter, s: Schedule) -> ir.Value:
    """One policy after the other; each has its number of iterations, the last one goes on.

    The iteration in which a policy's number is reached is still its own. All count from the start.
    """
    counts = s.node.args.ints("sub_policy_num_iters")
    if not counts or min(counts) < 1:
        raise NetDefError(
            f"{label(s.node.proto)} needs numbers of at least 1 in 'sub_policy_num_iters', not "
            f"{counts}."
        )
    parts = []
    for index in range(len(counts)):
        part = replace(s, prefix=f"sub_policy_{index}_")
        factor = _factor(op, part, without="composite")
        parts.append(op.Mul(factor, part.number("lr_scale", 1.0)))
    found = parts.pop()
    for index in reversed(range(len(parts))):
        found = s.before(sum(counts[: index + 1]) + 1, parts[index], found)
    return found

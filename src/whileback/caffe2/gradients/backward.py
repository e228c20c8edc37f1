"""The gradient of a region: its operators from the last to the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whileback.caffe2.gradients.emission import zeros_to
from whileback.caffe2.gradients.regions import Control, Frame, Node, Region, Value, plain
from whileback.caffe2.operators.registry import (
    GradientMaker,
    Gradients,
    Slices,
    add_argument,
    gradient_operators,
    no_gradient,
)
from whileback.caffe2.reading.misfits import misfit
from whileback.errors import NetDefError, NoGradientError, WhilebackError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.names import Names

__all__ = ["Backward", "Gradient", "Session", "control_gradients"]

Gradient = str | Slices


@dataclass
class Session:
    """What the gradients of all regions of one net share."""

    names: Names
    net_names: Names
    # Whether everything is differentiated, and not what is asked for alone.
    everything: bool = True
    # Names given out here, with what each would best be called.
    own: dict[str, str] = field(default_factory=dict)
    # The frame that each gradient net pops.
    frames: dict[str, Frame] = field(default_factory=dict)
    # Operators that have no gradient, by type.
    missing: Counter[str] = field(default_factory=Counter)
    assumed: dict[str, None] = field(default_factory=dict)
    # For a control operator, and the blobs it writes whose gradient is known: those it reads that
    # get one.
    flows: dict[tuple[Control, frozenset[str]], frozenset[str]] = field(default_factory=dict)

    def fresh(self, base: str) -> str:
        """Return a new name; versions of blobs in it go, and so do endings given before."""
        base = plain(self.own.get(base, base))
        name = self.names.fresh(base)
        self.own[name] = base
        return name

    def check_complete(self) -> None:
        """Raise NoGradientError if there were operators without a gradient."""
        if self.missing:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(self.missing.items()))
            raise NoGradientError(
                f"The gradient passes operators that have none here: {listed}. Stop it before "
                "them with StopGradient, or ask for the gradients of fewer blobs."
            )


class Backward:
    """The gradient operators of one region.

    `ops` are in the order in which they run. In them a value of a forward operator is called by
    `Value.name`; all other names are their own.
    """

    def __init__(self, session: Session, region: Region, dry: bool = False) -> None:
        self.session = session
        self.region = region
        # Only to find out which values get a gradient.
        self.dry = dry
        self.ops: list[OperatorDef] = []
        self._parts: dict[Value, list[Gradient]] = {}
        self.totals: dict[Value, Gradient] = {}

    def add(self, value: Value, gradient: Gradient | None) -> None:
        """Add a part of a value's gradient, if one is of use."""
        if gradient is not None and value.active:
            self._parts.setdefault(value, []).append(gradient)

    def run(self) -> None:
        """Differentiate all operators, given the gradients of what the region leaves behind."""
        for node in reversed(self.region.nodes):
            dys = [self.total(value) for value in node.outputs]
            if all(dy is None for dy in dys):
                continue
            if isinstance(node, Control):
                self._control(node, dys)
            else:
                self._plain(node, dys)
        for blob in list(self.region.versions):
            self.total(self.region.first(blob))

    def total(self, value: Value) -> Gradient | None:
        """Return the gradient of a value to which nothing more is added, None if there is none."""
        parts = self._parts.pop(value, None)
        if parts:
            self.totals[value] = self._sum(value, parts)
        return self.totals.get(value)

    def dense(self, value: Value, gradient: Gradient) -> str:
        """Return a gradient as one tensor."""
        if isinstance(gradient, str):
            return gradient
        zeros = self.zeros(value)
        self.accumulate(zeros, gradient)
        return zeros

    def zeros(self, value: Value) -> str:
        """Emit zeros of a value's shape, and return their name."""
        name = self.fresh(f"{value.blob}_grad")
        self.ops.append(zeros_to(value, name))
        return name

    def accumulate(self, cell: str, gradient: Gradient) -> None:
        """Emit operators that add a gradient to what is in a blob."""
        if isinstance(gradient, str):
            op = OperatorDef(type="Sum", input=[cell, gradient], output=[cell])
        else:
            one = self.emit("ConstantFill", [], "one", shape=[1], value=1.0)
            inputs = [cell, one, gradient.indices, gradient.values, one]
            op = OperatorDef(type="ScatterWeightedSum", input=inputs, output=[cell])
        self.ops.append(op)

    def emit(self, op_type: str, inputs: Sequence[str], base: str, **args: object) -> str:
        """Emit an operator of one output, and return its name."""
        grad = Gradients(self.fresh)
        name = grad.add(op_type, inputs, base, **args)
        self.ops += grad.ops
        return name

    def fresh(self, base: str) -> str:
        """Return a new name."""
        return "-" if self.dry else self.session.fresh(base)

    def _sum(self, value: Value, parts: list[Gradient]) -> Gradient:
        """Return the sum of gradients: sparse if all are."""
        if len(parts) == 1:
            return parts[0]
        base = f"{value.blob}_grad"
        slices = [part for part in parts if isinstance(part, Slices)]
        if len(slices) == len(parts):
            indices = self._concat([part.indices for part in slices], f"{base}_indices")
            return Slices(indices, self._concat([part.values for part in slices], f"{base}_values"))
        return self.emit("Sum", [self.dense(value, part) for part in parts], base)

    def _concat(self, names: list[str], base: str) -> str:
        grad = Gradients(self.fresh)
        joined, _ = grad.add_all("Concat", names, [base, f"{base}_sizes"], axis=0)
        self.ops += grad.ops
        return joined

    def _plain(self, node: Node, dys: Sequence[Gradient | None]) -> None:
        """Emit the gradient of a plain operator."""
        if node.op.type in no_gradient or not any(value.active for value in node.inputs):
            return
        maker = gradient_operators.get(node.op.type)
        if maker is None:
            self.session.missing[node.op.type] += not self.dry
            for value in node.inputs:  # So that what lies before it is listed, too.
                self.add(value, "-")
            return
        op = node.renamed()
        if op.type == "Cast" and not self._casts_float(node, op):
            return
        grad = Gradients(self.fresh)
        found = _made(maker, grad, op, self._all_dense(node, dys))
        for each in grad.ops:
            if op.HasField("device_option") and not each.HasField("device_option"):
                each.device_option.CopyFrom(op.device_option)
        self.ops += grad.ops
        for value, gradient in zip(node.inputs, found, strict=False):
            self.add(value, gradient)

    def _all_dense(self, node: Node, dys: Sequence[Gradient | None]) -> list[str | None]:
        both = zip(node.outputs, dys, strict=True)
        return [None if dy is None else self.dense(value, dy) for value, dy in both]

    def _casts_float(self, node: Node, op: OperatorDef) -> bool:
        """Tell whether a Cast is one of floats, and let its renamed form say what it casts from."""
        known = node.inputs[0].dtype
        said = any(arg.name == "from_type" for arg in op.arg)
        if known is None and not said and self.session.everything:
            self.session.assumed[
                f"{label(node.op)} is taken for a cast of integers, which have no gradient: it has "
                f"no 'from_type', and the type of '{node.inputs[0].blob}' is not known."
            ] = None
            return False
        if known is not None and not said:
            add_argument(op, "from_type", known)
        return True

    def _control(self, node: Control, dys: Sequence[Gradient | None]) -> None:
        """Emit the gradient of a control operator."""
        dense = zip(node.outputs, self._all_dense(node, dys), strict=True)
        given = {value.blob: dy for value, dy in dense if dy is not None}
        for blob, gradient in control_gradients[node.op.type](self, node, given).items():
            self.add(node.entry[blob], gradient)


def _made(
    maker: GradientMaker, grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> Sequence[Gradient | None]:
    """Return the gradient of each input of an operator, whose maker emits what computes them."""
    try:
        found = maker(grad, op, dys)
    except WhilebackError as error:
        raise type(error)(plain(str(error))) from error
    except Exception as error:  # A maker takes for granted what most operators fulfil.
        wrong = misfit(op, "differentiated", map(repr, op.input), error)
        raise NetDefError(plain(str(wrong))) from error
    return [found] if found is None or isinstance(found, str | Slices) else list(found)


# For a control operator, and the gradients of what it writes, by blob: emits its gradient, and
# returns the gradients of what it reads.
ControlGradient = Callable[[Backward, Control, dict[str, str]], dict[str, str]]
control_gradients: dict[str, ControlGradient] = {}

"""The table of Caffe2's operators: how each is read, and which operators are its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import onnx_ir as ir

from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import Arguments, add_argument, label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

if TYPE_CHECKING:
    from whileback.caffe2.reading.emitter import Emitter

__all__ = [
    "GradientMaker",
    "Gradients",
    "Lowering",
    "Operator",
    "Slices",
    "add_argument",
    "gradient_operator",
    "gradient_operators",
    "lowering",
    "lowerings",
    "no_gradient",
    "not_differentiable",
]

Lowered = ir.Value | Sequence[ir.Value | None] | None


class Operator:
    """An operator as a lowering sees it: the values that it reads, and its arguments.

    `inputs` has None for a blob that holds no tensor. `outputs` are names: their number tells
    which optional results are wanted.
    """

    def __init__(self, proto: OperatorDef, inputs: Sequence[ir.Value | None]) -> None:
        self.proto = proto
        self.type = proto.type
        self.inputs = list(inputs)
        self.outputs = list(proto.output)
        self.args = Arguments(proto)

    def optional(self, index: int) -> ir.Value | None:
        """Return the input, or None where the operator was given fewer."""
        return self.inputs[index] if index < len(self.inputs) else None

    def forward(
        self, blobs: Sequence[str], inputs: Sequence[ir.Value], results: int = 1
    ) -> Operator:
        """Return the operator that this one is the gradient of; messages still name this one.

        Args:
            blobs: what it reads.
            inputs: the tensors in them.
            results: how many outputs it has.
        """
        proto = OperatorDef()
        proto.CopyFrom(self.proto)
        proto.input[:] = blobs
        found = Operator(proto, inputs)
        found.type = self.type.removesuffix("Gradient")
        found.outputs = [f"Y{k}" for k in range(results)]
        return found

    def tensors(self, count: int) -> list[ir.Value]:
        """Return the first inputs, which are needed.

        Raises: NetDefError if one is missing or holds no tensor.
        """
        found = [value for value in self.inputs[:count] if value is not None]
        if len(found) < count:
            raise NetDefError(
                f"{label(self.proto)} needs {count} tensors, but was given {len(found)}: "
                f"{list(self.proto.input)}. Correct its inputs."
            )
        return found


@dataclass(frozen=True)
class Slices:
    """The names of the two blobs of a sparse gradient: `values[k]` belongs to row `indices[k]`."""

    indices: str
    values: str


Gradient = str | Slices | None


class Gradients:
    """Emits the gradient of one forward operator; blobs are named by the caller.

    Every version of a blob has its own name here, so that a maker may read the inputs and the
    outputs of its operator without thinking of what overwrites them.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.ops: list[OperatorDef] = []
        self._fresh = fresh

    def blob(self, base: str) -> str:
        """Return a name for a new blob."""
        return self._fresh(base)

    def emit(
        self, op_type: str, inputs: Sequence[str], of: Sequence[str], like: OperatorDef
    ) -> list[str]:
        """Add a gradient operator with the arguments of the operator `like`.

        Args:
            op_type: such as "FCGradient".
            inputs: the blobs it reads.
            of: the forward blob that each output is the gradient of.
            like: the forward operator.

        Returns: the names of the outputs, such as "w_grad".
        """
        op = OperatorDef(type=op_type, input=inputs, is_gradient_op=True, arg=like.arg)
        op.output.extend(self._fresh(f"{blob}_grad") for blob in of)
        if like.HasField("device_option"):
            op.device_option.CopyFrom(like.device_option)
        op.engine = like.engine
        self.ops.append(op)
        return list(op.output)

    def add(self, op_type: str, inputs: Sequence[str], base: str, **args: Any) -> str:
        """Add an operator of one output with arguments of its own, and return its output.

        Args:
            op_type: such as "Scale".
            inputs: the blobs it reads.
            base: the output's name, if it is free.
            args: an int, a float, a string, or a list of them.
        """
        return self.add_all(op_type, inputs, [base], **args)[0]

    def add_all(
        self, op_type: str, inputs: Sequence[str], bases: Sequence[str], **args: Any
    ) -> list[str]:
        """Add an operator of several outputs, named after `bases`, as `add` does."""
        op = OperatorDef(type=op_type, input=inputs, output=[self._fresh(base) for base in bases])
        for name, value in args.items():
            add_argument(op, name, value)
        self.ops.append(op)
        return list(op.output)

    def zeros_like(self, blob: str) -> str:
        """Add an operator that fills a blob with zeros, in the shape of another one."""
        return self.add("ConstantFill", [blob], f"{blob}_grad", value=0.0)


Lowering = Callable[["Emitter", Operator], Lowered]
GradientMaker = Callable[[Gradients, OperatorDef, Sequence[Any]], Sequence[Gradient] | Gradient]
L = TypeVar("L", bound=Lowering)
G = TypeVar("G", bound=GradientMaker)

lowerings: dict[str, Lowering] = {}
gradient_operators: dict[str, GradientMaker] = {}
no_gradient: dict[str, str] = {}


def lowering(*types: str) -> Callable[[L], L]:
    """Register the decorated function as the way in which operators of these types are read.

    It is called as `f(op, node)`: `op` emits ONNX operators (`op.Mul(a, b)`), `node` is the
    `Operator`. It returns the value of each output, in order; None, or nothing at the end, for
    an output that is left as it was. Inputs that the operator shares with an output need no care:
    what is returned is what the blob holds afterwards.
    """

    def register(function: L) -> L:
        for op_type in types:
            if op_type in lowerings:
                raise AssertionError(f"{op_type} has two lowerings")
            lowerings[op_type] = function
        return function

    return register


def gradient_operator(*types: str) -> Callable[[G], G]:
    """Register the decorated function as the maker of the gradient of operators of these types.

    It is called as `f(grad, op, dys)`: `grad` emits Caffe2's operators, `op` is the forward
    operator, `dys` has the name of the gradient of each output (or `Slices`), or None where none
    flows. It returns the name of the gradient of each input, in order, None where none flows.
    """

    def register(function: G) -> G:
        for op_type in types:
            if op_type in gradient_operators or op_type in no_gradient:
                raise AssertionError(f"{op_type} has two gradients")
            gradient_operators[op_type] = function
        return function

    return register


def not_differentiable(reason: str, *types: str) -> None:
    """Register operators through which no gradient flows."""
    for op_type in types:
        if op_type in gradient_operators or op_type in no_gradient:
            raise AssertionError(f"{op_type} has two gradients")
        no_gradient[op_type] = reason

"""Nets as trees of blocks and steps, checked: all that can be said of a net before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from whileback.caffe2.operators.counts import check_counts
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import Arguments, label, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Block", "Step", "carried_count", "parse"]

# ONNX Runtime reads no model whose graphs stand deeper in each other.
DEEPEST = 30
# A condition is read twice, so one in a condition in a condition eight times.
DEEPEST_CONDITION = 6


@dataclass(frozen=True, eq=False)
class Step:
    """An operator of a net, with the nets among its arguments."""

    proto: OperatorDef
    nets: Mapping[str, Block]

    @cached_property
    def args(self) -> Arguments:
        """The operator's arguments."""
        return Arguments(self.proto)

    @cached_property
    def bindings(self) -> dict[str, str]:
        """Of a `Do`: the blobs inside that stand for blobs outside."""
        outer = [*self.proto.input[:-1], *self.proto.output[:-1]]
        inner = self.args.names("inner_blobs", [])
        return dict(
            zip(inner, (outer[k] for k in self.args.ints("outer_blobs_idx", [])), strict=True)
        )

    @cached_property
    def writes(self) -> frozenset[str]:
        """The blobs of its workspace that the operator may write."""
        written = frozenset(self.proto.output)
        inside = frozenset[str]().union(*(net.writes for net in self.nets.values()))
        if self.proto.type == "Do":
            bound = (outer for inner, outer in self.bindings.items() if inner in inside)
            return frozenset(bound) | {self.proto.input[-1]}
        if self.proto.type == "ONNXWhile" and not self.args.bool("disable_scopes", False):
            return written
        return written | inside if self.nets else written


@dataclass(frozen=True, eq=False)
class Block:
    """A net: its name, if it has one, and its operators."""

    name: str
    steps: Sequence[Step]
    inputs: Sequence[str]
    outputs: Sequence[str]

    @cached_property
    def writes(self) -> frozenset[str]:
        """The blobs that the net may write."""
        return frozenset[str]().union(*(step.writes for step in self.steps))

    def walk(self) -> Iterator[Step]:
        """Yield the operators of the net and of all nets inside it."""
        for step in self.steps:
            yield step
            for net in step.nets.values():
                yield from net.walk()


def parse(net: NetDef) -> Block:
    """Return the tree of a net.

    Raises:
        NetDefError: an operator or a blob contradicts the rules of the format.
        UnsupportedError: nets stand too deep in each other.
    """
    return _block(net, 0, 0)


def _block(net: NetDef, depth: int, conditions: int) -> Block:
    if depth > DEEPEST or conditions > DEEPEST_CONDITION:
        limit = f"{DEEPEST} nets" if depth > DEEPEST else f"{DEEPEST_CONDITION} cond_nets"
        raise UnsupportedError(
            f"Net '{net.name}' stands inside more than {limit}; that is the limit for what can be "
            "read. Flatten the net."
        )
    steps = []
    for op in net.op:
        nets = {
            name: _block(inner, depth + 1, conditions + (name == "cond_net"))
            for name, inner in subnets(op)
        }
        _check_names(op)
        check_counts(op)
        step = Step(op, nets)
        if op.type in _CHECKS:
            _CHECKS[op.type](step)
        steps.append(step)
    _check_sources(net, steps)
    return Block(net.name, steps, list(net.external_input), list(net.external_output))


def _check_names(op: OperatorDef) -> None:
    for names, what in ((op.input, "inputs"), (op.output, "outputs")):
        if "" in names:
            raise NetDefError(
                f"{label(op)} has a blob without a name among its {what}. Give it one, or leave it "
                "out."
            )


def _check_sources(net: NetDef, steps: Sequence[Step]) -> None:
    """Where a net lists its inputs, it reads nothing else; it writes what it lists as outputs."""
    known = set(net.external_input)
    for step in steps:
        for name in step.proto.input if net.external_input else ():
            if name not in known:
                raise NetDefError(
                    f"Net '{net.name}': blob '{name}' is read by {label(step.proto)}, but it is "
                    "neither in external_input nor produced before. Add it to external_input."
                )
        known.update(step.proto.output, step.writes)
    # Exporters leave nets without operators that list the blobs of other nets.
    for name in net.external_output if net.op else ():
        if name not in known:
            raise NetDefError(
                f"Net '{net.name}' has '{name}' in external_output, but no operator writes it and "
                "it is not in external_input. Take it out, or add the operator that is missing."
            )


def _check_if(step: Step) -> None:
    _check_nets(step, "then_net", "else_net")


def _check_while(step: Step) -> None:
    _check_nets(step, "loop_net", "cond_net")


def _check_nets(step: Step, needed: str, other: str) -> None:
    step.args.net(needed)
    if step.args.has(other):
        step.args.net(other)


def carried_count(op: OperatorDef) -> int:
    """Return how many inputs of an ONNXWhile, after its first two, go from trip to trip."""
    return Arguments(op).int("num_loop_carried_deps", len(op.input) - 2)


def _check_onnx_while(step: Step) -> None:
    """The body reads the iteration, the condition and what is carried; more inputs are hints."""
    op, body = step.proto, step.args.net("body")
    carried, given = carried_count(op), len(body.external_input)
    if step.args.bool("disable_scopes", False):
        given = min(given, carried + 2)  # All other blobs can be read, too.
    if not 0 <= carried <= len(op.input) - 2 or given != carried + 2:
        raise NetDefError(
            f"{label(op)} has {len(op.input)} inputs and carries {carried} blobs, but its body "
            f"'{body.name}' has {len(body.external_input)} in external_input: these must be the "
            "iteration, the condition and each carried blob."
        )
    if len(body.external_output) != len(op.output) + 1 or len(op.output) < carried:
        raise NetDefError(
            f"{label(op)} has {len(op.output)} outputs and carries {carried} blobs, but its body "
            f"'{body.name}' has {len(body.external_output)} in external_output: these must be the "
            "condition, each carried blob and each stacked one."
        )


def _check_do(step: Step) -> None:
    op, args = step.proto, step.args
    net = args.net("net")
    if not net.HasField("name"):
        raise NetDefError(f"{label(op)}: its net must have a name. Give it one.")
    if op.input[-1] != op.output[-1]:
        raise NetDefError(
            f"{label(op)} must name its scope as its last input and as its last output, but has "
            f"the inputs {list(op.input)} and the outputs {list(op.output)}."
        )
    if args.bool("reuse_workspace", False) and (
        args.bool("copy_external_blobs", False) or op.is_gradient_op
    ):
        raise NetDefError(
            f"{label(op)}: 'reuse_workspace' goes neither with 'copy_external_blobs' nor with a "
            "gradient operator. Remove it."
        )
    _check_bindings(step)


def _check_bindings(step: Step) -> None:
    """Inside names stand for all outside names, each once."""
    op, args = step.proto, step.args
    inner, indices = args.names("inner_blobs", []), args.ints("outer_blobs_idx", [])
    outer = [*op.input[:-1], *op.output[:-1]]
    if len(inner) != len(indices):
        raise NetDefError(
            f"{label(op)} has {len(inner)} names in 'inner_blobs', but {len(indices)} numbers in "
            "'outer_blobs_idx'; each name needs one."
        )
    for name, index in zip(inner, indices, strict=True):
        if not 0 <= index < len(outer):
            raise NetDefError(
                f"{label(op)} binds '{name}' to blob {index} of its inputs and outputs, of which "
                f"there are {len(outer)}."
            )
    bound = [outer[k] for k in indices]
    for names, what in (
        (inner, "'inner_blobs'"),
        (bound, "what 'outer_blobs_idx' names"),
        (op.input[:-1], "its inputs"),
        (op.output[:-1], "its outputs"),
    ):
        _check_once(op, names, what)
    for name in outer:
        if name not in bound:
            raise NetDefError(
                f"{label(op)} binds blob '{name}' to no blob of its net. Name that in "
                "'inner_blobs' and 'outer_blobs_idx', or leave the blob out."
            )


def _check_once(op: OperatorDef, names: Sequence[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise NetDefError(f"{label(op)} has '{twice[0]}' twice in {what}. Name it once.")


_CHECKS: dict[str, Callable[[Step], None]] = {
    "If": _check_if,
    "While": _check_while,
    "Do": _check_do,
    "ONNXWhile": _check_onnx_while,
}

"""RecurrentNetwork runs a step net for each step of a sequence; its gradient runs another, back.

Blobs of the step net are linked to rows of blobs outside: of the sequence, and of the states,
whose row 0 is where they start and whose row t + 1 is what step t makes of row t. The gradient
needs what the steps left in their blobs: its step net reads them. It is stacked over the steps
here, and goes where nothing needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from whileback.caffe2.operators.loops import repeat
from whileback.caffe2.reading.contents import Opaque
from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.nets import Step
from whileback.caffe2.reading.reader import Reader, controls
from whileback.errors import NetDefError, UnsupportedError
from whileback.formats.caffe2.arguments import Arguments, label
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef
from whileback.graph.shapes import rank, static_shape

__all__ = ["Link", "Network", "Steps", "enter", "sized"]


@dataclass(frozen=True)
class Link:
    """A blob of the step net that is row t + offset of a blob outside, in step t."""

    internal: str
    external: str
    offset: int


class Network:
    """What the arguments of RecurrentNetwork and RecurrentNetworkGradient say.

    `local` are the names that belong to the steps, and not to the net around them; `kept` those
    whose contents cannot be found again by their links.
    """

    def __init__(self, op: OperatorDef) -> None:
        args = self.args = Arguments(op)
        self.op = op
        self.states = args.names("recurrent_states")
        self.starts = args.ints("initial_recurrent_state_ids")
        self.aliases = list(zip(args.names("alias_src"), args.ints("alias_offset"), strict=True))
        self.timestep = args.string("timestep", "timestep")
        self.step_net = args.net("step_net")
        self.links = self._links("link")
        has_backward = args.has("backward_step_net")
        self.backward_net = args.net("backward_step_net") if has_backward else NetDef()
        self.backward_links = self._links("backward_link") if has_backward else []
        made = {name for inner in self.step_net.op for name in inner.output}
        read = {link.internal for link in self.links if not self._is_made(link)}
        self.kept = sorted(made - {link.internal for link in self.links if self._is_made(link)})
        self.local = {self.timestep, *made, *read}
        self.local.update(link.internal for link in self.backward_links)
        self.local.update(name for inner in self.backward_net.op for name in inner.output)

    def _links(self, kind: str) -> list[Link]:
        names = self.args.names(f"{kind}_internal"), self.args.names(f"{kind}_external")
        if any(window != 1 for window in self.args.ints(f"{kind}_window", [])):
            raise UnsupportedError(
                f"{label(self.op)} links several rows at once ('{kind}_window'), which is not "
                "supported."
            )
        return [Link(*link) for link in zip(*names, self.args.ints(f"{kind}_offset"), strict=True)]

    def _is_made(self, link: Link) -> bool:
        """Tell whether the step net makes the row, which else it reads."""
        return link.external in self.states and link.offset == 1

    def linked(self, links: Iterable[Link], external: str, offset: int) -> str | None:
        """Return the blob of the step net that is linked to a row of a state, if there is one."""
        found = [k.internal for k in links if (k.external, k.offset) == (external, offset)]
        return found[-1] if found else None

    def write_linked(
        self, step: Reader, links: Iterable[Link], external: str, offset: int, value: ir.Value
    ) -> None:
        """Write the blob of a step that is linked to a row of a state, if there is one."""
        internal = self.linked(links, external, offset)
        if internal is not None:
            step.write(internal, value)

    def inner(self, reader: Reader, op: Emitter) -> Reader:
        """Return a reader for one step, in a workspace of its own."""
        step = reader.inside(op)
        return step.within(reader.workspace.but_for(self.local))


class Steps(Opaque):
    """What the steps left in their blobs, by name: stacked, or a constant as it is."""

    def __init__(self) -> None:
        self.stacks: dict[str, ir.Value] = {}
        self.constants: dict[str, ir.Value] = {}


def enter(reader: Reader, step: Reader, network: Network, number: ir.Value) -> None:
    """Give a step its number, and its rows of the sequence."""
    op, row = step.op, step.op.Reshape(number, [1])
    step.write(network.timestep, op.cast(row, ir.DataType.INT32))
    for link in network.links:
        if link.external not in network.states:
            sequence = reader.tensor(network.op, link.external)
            at = op.Add(row, link.offset) if link.offset else row
            step.write(link.internal, op.Gather(sequence, at))


def _start(op: Emitter, value: ir.Value, sequence: ir.Value) -> ir.Value:
    """Return where a state starts as a row, [1, N, D]; it may lack the first axes."""
    missing = 3 - (rank(value) or 3)
    row = op.Unsqueeze(value, [*range(missing)]) if missing else value
    if missing < 2:
        return row
    return op.Expand(row, op.Concat([1], op.dim(sequence, 1), [1], axis=0))


def sized(op: Emitter, stack: ir.Value, sequence: ir.Value, row: ir.Value) -> ir.Value:
    """Return the rows of a state, whose sizes ONNX Runtime 1.32 forgets if there is none."""
    if static_shape(stack) is not None:
        return stack
    return op.Reshape(stack, op.Concat(op.dim(sequence, 0), op.Shape(row, start=1), axis=0))


def _recurrent_network(reader: Reader, operator: Step) -> None:
    """Run the step net for each row of the sequence; what is stacked are its states."""
    op, proto = reader.op, operator.proto
    network = Network(proto)
    op.blob = proto.output[0]
    sequence = reader.tensor(proto, proto.input[0])
    starts = [
        _start(op, reader.tensor(proto, proto.input[index]), sequence) for index in network.starts
    ]
    kept, steps = list[str](), Steps()

    def trip(op: Emitter, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        step = network.inner(reader, op)
        enter(reader, step, network, number)
        for state, value in zip(network.states, carried, strict=True):
            network.write_linked(step, network.links, state, 0, value)
        step.run(operator.nets["step_net"])
        new = [_made(step, network, state) for state in network.states]
        tape = _tape(step, network, steps)
        kept.extend(tape)
        return [*new, *(op.Squeeze(value, [0]) for value in new), *tape.values()]

    found = repeat(op, op.Squeeze(op.dim(sequence, 0), [0]), starts, trip)
    count = len(starts)
    steps.stacks = dict(zip(kept, found[2 * count :], strict=True))
    rows = [
        sized(op, stack, sequence, start)
        for start, stack in zip(starts, found[count:], strict=False)
    ]
    ends = zip(network.states, starts, found, rows, strict=False)
    _write_states(reader, network, {state: values for state, *values in ends})
    reader.write(proto.output[len(network.aliases)], steps)


def _made(step: Reader, network: Network, state: str) -> ir.Value:
    """Return what a step made of a state."""
    internal = network.linked(network.links, state, 1)
    if internal is None:
        raise NetDefError(f"{label(network.op)} has no link to row 1 of state '{state}'.")
    return step.tensor(network.op, internal)


def _tape(step: Reader, network: Network, steps: Steps) -> dict[str, ir.Value]:
    """Return what a step leaves in its blobs, except for constants, which go into `steps`.

    What no gradient reads is taken away when the model is cleaned.
    """
    tape = {}
    for name in network.kept:
        content = step.content(name)
        if isinstance(content, ir.Value) and content.const_value is not None:
            steps.constants[name] = content
        elif isinstance(content, ir.Value):
            tape[name] = content
    return tape


def _write_states(reader: Reader, network: Network, found: dict[str, list[ir.Value]]) -> None:
    """Write the states and the outputs, which are rows of states from an offset on."""
    op = reader.op
    for state, (start, _, rows) in found.items():
        reader.write(state, op.Concat(start, rows, axis=0))
    for name, (state, offset) in zip(network.op.output, network.aliases, strict=False):
        _, last, rows = found[state]
        if offset == 1:
            reader.write(name, rows)
        elif offset == -1:
            reader.write(name, last)
        else:
            whole = reader.tensor(network.op, state)
            reader.write(name, op.Slice(whole, [offset], [2**62], [0]))


controls["RecurrentNetwork"] = _recurrent_network

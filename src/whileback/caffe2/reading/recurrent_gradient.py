"""RecurrentNetworkGradient runs the step net of the gradient from the last row to the first.

A state's gradient at row t is what the step net makes of that at row t + 1, and the gradients of
the outputs that have this row. Those of parameters are summed over the steps.
"""

from __future__ import annotations

import onnx_ir as ir

from whileback.caffe2.operators.loops import repeat
from whileback.caffe2.reading.emitter import Emitter
from whileback.caffe2.reading.nets import Step, parse
from whileback.caffe2.reading.reader import Reader, controls
from whileback.caffe2.reading.recurrent import Network, Steps, enter, sized
from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef


class _Backward:
    """One RecurrentNetworkGradient; it reads gradients, then all that the forward one has."""

    def __init__(self, reader: Reader, proto: OperatorDef) -> None:
        network = self.network = Network(proto)
        self.reader, self.proto = reader, proto
        self.net = parse(network.backward_net)
        self.steps = self._find_steps()
        self.given = network.args.ints("outputs_with_grads", [0])
        inputs = proto.input[len(self.given) :]
        self.states = [self.tensor(state) for state in network.states]
        self.starts = [self.tensor(inputs[index]) for index in network.starts]
        self.parameters = [self.tensor(inputs[index]) for index in network.args.ints("param")]
        self.added = network.args.names("param_grads")
        self.links = [(f"{state}_grad", network.backward_links) for state in network.states]
        states = {state for state, _ in self.links}
        self.sequences = [k.internal for k in network.backward_links if k.external not in states]
        self.sequence = self.tensor(inputs[0])

    def tensor(self, name: str) -> ir.Value:
        return self.reader.tensor(self.proto, name)

    def _find_steps(self) -> Steps:
        blob = self.proto.input[-1]
        steps = self.reader.content(blob)
        if not isinstance(steps, Steps):
            raise NetDefError(
                f"{label(self.proto)} needs in blob '{blob}' what the steps of RecurrentNetwork "
                "left, which only that operator puts there. Put both into one net."
            )
        return steps

    def run(self) -> None:
        """Emit the loop and write the gradients."""
        op, count = self.reader.op, len(self.states)
        length = op.Squeeze(op.dim(self.sequence, 0), [0])
        own = [self._own(index) for index in range(count)]
        starts = [
            op.zeros_like(op.Gather(state, [0])) if rows is None else op.Gather(rows, [-1])
            for state, rows in zip(self.states, own, strict=True)
        ]
        sums = [op.zeros_like(value) for value in self.parameters]

        def trip(op: Emitter, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            t = op.Sub(op.Sub(length, 1), number)
            step = self._step(op, t, carried)
            totals = zip(carried[count:], self.added, strict=True)
            return [
                *(self._before(step, t, index, own[index]) for index in range(count)),
                *(op.Add(total, step.tensor(self.proto, name)) for total, name in totals),
                *(op.Squeeze(row, [0]) for row in self._rows(step, carried)),
            ]

        found = repeat(op, length, [*starts, *sums], trip)
        carried = len(starts) + len(sums)
        stacks = [op.Slice(stack, [-1], [-(2**62)], [0], [-1]) for stack in found[carried:]]
        self._write(found[:count], found[count:carried], stacks)

    def _own(self, index: int) -> ir.Value | None:
        """Return the gradient of a state by the outputs that are made of its last rows."""
        op, state = self.reader.op, self.states[index]
        rows = []
        for name, output in zip(self.proto.input, self.given, strict=False):
            if self.network.aliases[output][0] == self.network.states[index]:
                gradient = self.tensor(name)
                missing = op.Sub(op.dim(state, 0), op.dim(gradient, 0))
                rows.append(op.Pad(gradient, op.Concat(missing, [0], axis=0), None, [0]))
        return op.add(*rows)

    def _step(self, op: Emitter, t: ir.Value, carried: list[ir.Value]) -> Reader:
        """Return a reader after the gradient's step net, in which the forward blobs are back."""
        network = self.network
        step = network.inner(self.reader, op)
        enter(self.reader, step, network, t)
        row = op.Reshape(t, [1])
        for state, value in zip(network.states, self.states, strict=True):
            network.write_linked(step, network.links, state, 0, op.Gather(value, row))
            network.write_linked(step, network.links, state, 1, op.Gather(value, op.Add(row, 1)))
        for name, value in self.steps.constants.items():
            step.write(name, value)
        for name, stack in self.steps.stacks.items():
            step.write(name, op.Gather(stack, t))
        for (state, links), value in zip(self.links, carried, strict=False):
            network.write_linked(step, links, state, 1, value)
        step.run(self.net)
        return step

    def _before(self, step: Reader, t: ir.Value, index: int, own: ir.Value | None) -> ir.Value:
        """Return the gradient of a state at row t."""
        op, (state, links) = step.op, self.links[index]
        internal = self.network.linked(links, state, 0)
        made = None if internal is None else step.tensor(self.proto, internal)
        row = None if own is None else op.Gather(own, op.Reshape(t, [1]))
        found = op.add(made, row)
        return op.zeros_like(op.Gather(self.states[index], [0])) if found is None else found

    def _rows(self, step: Reader, carried: list[ir.Value]) -> list[ir.Value]:
        """Return the gradients of the states at row t + 1, and of the row of each sequence."""
        internals = [self.network.linked(links, state, 1) for state, links in self.links]
        after = [
            value if name is None else step.tensor(self.proto, name)
            for name, value in zip(internals, carried, strict=False)
        ]
        return [*after, *(step.tensor(self.proto, name) for name in self.sequences)]

    def _write(self, firsts: list[ir.Value], sums: list[ir.Value], stacks: list[ir.Value]) -> None:
        op, count = self.reader.op, len(self.states)
        for (state, _), first, stack in zip(self.links, firsts, stacks, strict=False):
            rows = sized(op, stack, self.sequence, first)
            self.reader.write(state, op.Concat(first, rows, axis=0))
        sequences = [op.reshape(stack, self.sequence) for stack in stacks[count:]]
        starts = [
            op.unbroadcast(first, start) for first, start in zip(firsts, self.starts, strict=True)
        ]
        found = [*sequences, *sums, *starts]
        if len(found) != len(self.proto.output):
            raise NetDefError(
                f"{label(self.proto)} has {len(self.proto.output)} outputs, but its arguments name "
                f"{len(found)} gradients."
            )
        for name, value in zip(self.proto.output, found, strict=True):
            self.reader.write(name, value)


def _recurrent_network_gradient(reader: Reader, operator: Step) -> None:
    reader.op.blob = operator.proto.output[0]
    _Backward(reader, operator.proto).run()


controls["RecurrentNetworkGradient"] = _recurrent_network_gradient

"""The gradient of RecurrentNetwork: RecurrentNetworkGradient, with the gradient of the step net.

The operator brings a step net for its gradient, which is not used: where a state is made of
another one, it lacks a part. It is made anew here, from the step net.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whileback.caffe2.gradients.emission import copy_to, pruned
from whileback.caffe2.gradients.finishing import free
from whileback.caffe2.gradients.naming import rename
from whileback.caffe2.gradients.net_gradient import add_gradient_operators
from whileback.caffe2.gradients.regions import plain
from whileback.caffe2.operators.registry import Gradients, gradient_operator
from whileback.caffe2.reading.recurrent import Link, Network
from whileback.errors import NoGradientError
from whileback.formats.caffe2.arguments import add_argument, label
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef
from whileback.graph.names import Names

_OWN = ("backward_", "outputs_with_grads", "param_grads")


@gradient_operator("RecurrentNetwork")
def recurrent_network_maker(
    grad: Gradients, op: OperatorDef, dys: Sequence[str | None]
) -> list[str | None]:
    """dX, d(parameters)…, d(starts)… = RecurrentNetworkGradient(dYs…, inputs…, outputs…)."""
    network = Network(_with_raw_names(op))
    if not network.backward_net.op:
        raise NoGradientError(
            f"{label(network.op)} keeps no steps, which its gradient needs: it has no "
            "'backward_step_net'. Build it with forward_only=False."
        )
    given = [index for index, _ in enumerate(network.aliases) if dys[index] is not None]
    parameters = network.args.ints("param")
    targets = [0, *parameters, *network.starts]
    inputs = [*(str(dys[index]) for index in given), *op.input, *op.output]
    like = OperatorDef()
    like.CopyFrom(op)
    del like.arg[:]
    like.arg.extend(arg for arg in op.arg if not arg.name.startswith(_OWN))
    found = grad.emit(
        "RecurrentNetworkGradient", inputs, of=[network.op.input[i] for i in targets], like=like
    )
    _describe(grad.ops[-1], network, given, parameters)
    versions = zip((*network.op.input, *network.op.output), (*op.input, *op.output), strict=True)
    rename(grad.ops[-1:], dict(versions))
    return _by_input(grad, len(op.input), zip(targets, found, strict=True))


def _with_raw_names(op: OperatorDef) -> OperatorDef:
    """Return an operator whose blobs are called as its arguments call them."""
    raw = OperatorDef()
    raw.CopyFrom(op)
    for names in (raw.input, raw.output):
        names[:] = [plain(name) for name in names]
    return raw


def _describe(op: OperatorDef, network: Network, given: list[int], parameters: list[int]) -> None:
    """Give the gradient operator its arguments."""
    reads = [network.linked(network.links, state, 0) for state in network.states]
    makes = [network.linked(network.links, state, 1) for state in network.states]
    sequence = next(link for link in network.links if link.external not in network.states)
    names = [network.op.input[index] for index in parameters]
    seeds = {str(made): f"{made}_grad" for made in makes}
    wanted = [sequence.internal, *names, *(str(read) for read in reads)]
    lost = network.args.names("recompute_blobs_on_backward", [])
    net, found = step_gradient(network.step_net, seeds, wanted, lost)
    links = [Link(found[0], op.output[0], sequence.offset)]
    befores = found[1 + len(names) :]
    for state, made, before in zip(network.states, makes, befores, strict=True):
        links.append(Link(seeds[str(made)], f"{state}_grad", 1))
        links.append(Link(before, f"{state}_grad", 0))
    add_argument(op, "outputs_with_grads", given)
    add_argument(op, "param_grads", found[1 : 1 + len(names)])
    add_argument(op, "backward_link_internal", [link.internal for link in links])
    add_argument(op, "backward_link_external", [link.external for link in links])
    add_argument(op, "backward_link_offset", [link.offset for link in links])
    op.arg.add(name="backward_step_net").n.CopyFrom(net)


def step_gradient(
    step: NetDef, seeds: dict[str, str], wanted: list[str], lost: Sequence[str] = ()
) -> tuple[NetDef, list[str]]:
    """Return the gradient of a step net, and the blobs that have the gradients of `wanted`.

    The blobs that are lost after each step are made again. Where the gradient needs copies of
    what the step net overwrites, all of that net runs again.
    """
    both, gradients = add_gradient_operators(step, seeds, wanted, dense=True)
    count = len(step.op)
    ops = list(both.op)
    if ops[:count] == list(step.op):
        ops = [*pruned(step.op, lost), *ops[count:]]
    names = Names([*seeds.values(), *free(both), *(name for op in both.op for name in op.output)])
    found: list[str] = []
    for name in wanted:
        gradient = str(gradients[name])
        if gradient in (*found, *seeds.values()):
            copied = names.fresh(f"{name}_grad")
            ops.append(copy_to(gradient, copied))
            gradient = copied
        found.append(gradient)
    net = NetDef(name=f"{step.name}_grad", type=step.type, op=ops)
    net.external_input.extend(free(net))
    return net, found


def _by_input(grad: Gradients, count: int, parts: Iterable[tuple[int, str]]) -> list[str | None]:
    """Return the gradient of each input, the sum of its parts."""
    found: list[str | None] = [None] * count
    for index, part in parts:
        before = found[index]
        found[index] = part if before is None else grad.add("Sum", [before, part], part)
    return found

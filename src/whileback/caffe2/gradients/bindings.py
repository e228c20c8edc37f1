"""What the blobs of a net stand for: the bindings of a `Do`, and what nets mention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from whileback.caffe2.reading.nets import Step
from whileback.formats.caffe2.arguments import add_argument, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = [
    "Mentions",
    "all_names",
    "all_nets",
    "bind",
    "bindings",
    "is_forward_do",
    "mentions",
    "operators",
    "scope_of",
]

Mentions = Counter[str]


def is_forward_do(op: OperatorDef) -> bool:
    """Tell whether an operator is a `Do` that leaves a workspace behind, not one that takes it."""
    return op.type == "Do" and not op.is_gradient_op


def scope_of(op: OperatorDef) -> str:
    """Return the blob that holds the scope of a `Do`."""
    scope: str = op.input[-1]
    return scope


def bindings(op: OperatorDef) -> dict[str, str]:
    """Return the outer blob that each bound name inside a `Do` stands for."""
    return Step(op, {}).bindings


def bind(op: OperatorDef, outer: Mapping[str, str], read: Set[str], written: Set[str]) -> None:
    """Give a `Do`, which has its scope, other blobs: a name inside for each name outside.

    Args:
        op: the operator.
        outer: the names outside by the names inside.
        read: the names inside that become inputs; so do those that are not written either.
        written: the names inside that become outputs.
    """
    scope = scope_of(op)
    inputs = [name for name in outer if name in read or name not in written]
    outputs = [name for name in outer if name in written]
    op.input[:] = [*(outer[name] for name in inputs), scope]
    op.output[:] = [*(outer[name] for name in outputs), scope]
    kept = [arg for arg in op.arg if arg.name not in ("inner_blobs", "outer_blobs_idx")]
    del op.arg[:]
    op.arg.extend(kept)
    places: dict[str, int] = {}
    for place, name in enumerate([*inputs, *outputs]):
        places.setdefault(name, place)
    add_argument(op, "inner_blobs", list(places))
    add_argument(op, "outer_blobs_idx", list(places.values()))


def operators(net: NetDef) -> Iterator[OperatorDef]:
    """Yield the operators that run in the net's workspace, those of branches and loops too."""
    for op in net.op:
        yield op
        if op.type in ("If", "While"):
            for _, inner in subnets(op):
                yield from operators(inner)


def mentions(net: NetDef) -> Mentions:
    """Count how often each blob of the net's workspace is named."""
    return Counter(name for op in operators(net) for name in (*op.input, *op.output))


def all_nets(net: NetDef) -> Iterator[NetDef]:
    """Yield a net and all nets inside it."""
    yield net
    for op in net.op:
        for _, inner in subnets(op):
            yield from all_nets(inner)


def all_names(net: NetDef) -> set[str]:
    """Return the names of all blobs, in whatever workspace they are."""
    found: set[str] = set()
    for each in all_nets(net):
        found.update(each.external_input, each.external_output)
        found.update(name for op in each.op for name in (*op.input, *op.output))
    return found

"""Good names for the blobs of a gradient: that of `x` is `x_grad` wherever that name is free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from whileback.formats.caffe2.arguments import Arguments, subnets
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef
from whileback.graph.names import Names

__all__ = ["final_names", "rename", "required_names"]


def final_names(
    ops: Iterable[OperatorDef], own: Mapping[str, str], first: Mapping[str, str], taken: set[str]
) -> dict[str, str]:
    """Return the final names of blobs that were named in passing.

    Args:
        ops: all operators.
        own: what each of the blobs would best be called; other names stay.
        first: the same for blobs that choose first.
        taken: names that none may have, beside those that stay.
    """
    named = dict.fromkeys([*first, *_named(ops)])
    names, found = Names([*taken, *(name for name in named if name not in own)]), {}
    for name in named:
        if name in own:
            found[name] = names.fresh(first.get(name, own[name]))
    return found


def required_names(ops: Iterable[OperatorDef], own: Mapping[str, str]) -> dict[str, str]:
    """Return what blobs must be called for Caffe2 to run operators.

    It knows the gradient of a RecurrentNetwork's sequence `x` by its name, `x_grad`.
    """
    found = {}
    for op in ops:
        if op.type == "RecurrentNetworkGradient":
            sequence = op.input[len(Arguments(op).ints("outputs_with_grads"))]
            found[op.output[0]] = f"{own.get(sequence, sequence)}_grad"
    return found


def _named(ops: Iterable[OperatorDef]) -> Iterator[str]:
    """Yield all names in the order in which the operators have them."""
    for op in ops:
        yield from (*op.input, *op.output)
        for _, net in subnets(op):
            yield from _named(net.op)


def rename(ops: Iterable[OperatorDef], names: Mapping[str, str]) -> None:
    """Give blobs other names, wherever operators or their arguments name them."""
    for op in ops:
        op.input[:] = [names.get(name, name) for name in op.input]
        op.output[:] = [names.get(name, name) for name in op.output]
        for arg in op.arg:
            if arg.HasField("s"):
                arg.s = _renamed(arg.s, names)
            arg.strings[:] = [_renamed(each, names) for each in arg.strings]
        for _, net in subnets(op):
            net.external_input[:] = [names.get(name, name) for name in net.external_input]
            rename(net.op, names)


def _renamed(text: bytes, names: Mapping[str, str]) -> bytes:
    """Return the new name of a blob that an argument names; other bytes as they are."""
    return names[text.decode()].encode() if text.decode(errors="replace") in names else text

"""What a net as a whole does with the blobs and the scopes of its workspace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from whileback.caffe2.gradients.bindings import (
    bindings,
    is_forward_do,
    mentions,
    operators,
    scope_of,
)
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

__all__ = ["Workspace"]


class Workspace:
    """What is known of the workspace of a main net, or of a net in a `Do`.

    Args:
        net: the net.
        seen: blobs that something outside of the net reads or writes.
    """

    def __init__(self, net: NetDef, seen: Iterable[str]) -> None:
        self.seen = set(seen)
        self._mentions = mentions(net)
        self._users = _scope_users(net)
        self.asked = _asked(net)
        # By scope: the local blobs of Dos that outlive a run, because a Do uses the workspace of
        # an earlier one again; with the names of the blobs that take their places.
        self.lasting: dict[str, set[str]] = defaultdict(set)
        self.names: dict[tuple[str, str], str] = {}
        for op in operators(net):
            if is_forward_do(op) and Arguments(op).bool("reuse_workspace", False):
                self.lasting[scope_of(op)] |= _read_first(Arguments(op).net("net"))
        self._cached: dict[tuple[str, str], NetDef] = {}

    def private(self, net: NetDef) -> set[str]:
        """Return the blobs that no operator outside of a branch or body mentions.

        A scope that is made inside is private even if operators around it list it.
        """
        inside, users = mentions(net), _scope_users(net)
        private = {b for b, n in inside.items() if b not in self.seen and n == self._mentions[b]}
        return private | {scope for scope in _made(net) if users[scope] == self._users[scope]}

    def owned(self, scope: str) -> bool:
        """Tell whether a scope is made once and used by one Do."""
        return self._users[scope] == 2

    def net(self, do: OperatorDef) -> NetDef:
        """Return the net that a Do runs.

        A workspace keeps nets by name, so that one used again runs the first of a name.
        """
        args = Arguments(do)
        net = args.net("net")
        key = (scope_of(do), net.name)
        if args.bool("reuse_workspace", False):
            return self._cached.setdefault(key, net)
        self._cached[key] = net
        return net


def _made(net: NetDef) -> set[str]:
    """Return the scopes that operators make."""
    return {scope for op in operators(net) if op.type == "CreateScope" for scope in op.output}


def _scope_users(net: NetDef) -> Counter[str]:
    """Count for each scope the operators that make it, use it or read it."""
    return Counter(
        name
        for op in operators(net)
        if op.type not in ("If", "While")
        for name in (*op.input, *(op.output if op.type == "CreateScope" else ()))
    )


def _read_first(net: NetDef) -> set[str]:
    """Return the blobs that a net may read before it has written them."""
    read: set[str] = set()
    written: set[str] = set()
    for op in net.op:
        inside = mentions(NetDef(op=[op])) if op.type in ("If", "While") else op.input
        read |= set(inside) - written
        if op.type not in ("If", "While"):
            written.update(op.output)
    return read


def _asked(net: NetDef) -> set[str]:
    """Return the scopes of a workspace that a HasScope reads, in it or in a net inside."""
    found: set[str] = set()
    for op in operators(net):
        if op.type == "HasScope":
            found.update(op.input)
        elif op.type == "Do":
            bound = bindings(op)
            found.update(bound[n] for n in _asked(Arguments(op).net("net")) if n in bound)
    return found

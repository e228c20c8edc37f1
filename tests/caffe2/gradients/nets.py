"""Short ways to write nets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

BOOL, INT32 = 5, 2


def make(op_type: str, inputs: str = "", outputs: str = "", **args: Any) -> OperatorDef:
    """An operator; its blobs are names with spaces between."""
    op = OperatorDef(type=op_type, input=inputs.split(), output=outputs.split())
    for name, value in args.items():
        add_argument(op, name, value)
    return op


def net(name: str, *ops: OperatorDef, inputs: str = "", outputs: str = "") -> NetDef:
    lists = {"external_input": inputs.split(), "external_output": outputs.split()}
    return NetDef(name=name, op=ops, **lists)


def number(blob: str, value: int, dtype: int = INT32) -> OperatorDef:
    """The operator that fills a blob with one whole number, or a truth value."""
    return make("ConstantFill", "", blob, shape=[], dtype=dtype, value=value)


def do(
    inside: NetDef, scope: str, inputs: Sequence[str], outputs: Sequence[str] = (), **args: Any
) -> OperatorDef:
    """A Do; each blob is called inside as outside, or `inner=outer` says how."""
    pairs = [tuple(each.rpartition("=")[::2]) for each in (*inputs, *outputs)]
    places = [outer for _, outer in pairs]
    names = {outer: inner or outer for inner, outer in reversed(pairs)}
    op = make("Do", " ".join([*places[: len(inputs)], scope]))
    op.output.extend([*places[len(inputs) :], scope])
    add_argument(op, "net", inside)
    add_argument(op, "inner_blobs", list(names.values()))
    add_argument(op, "outer_blobs_idx", [places.index(outer) for outer in names])
    for name, value in args.items():
        add_argument(op, name, value)
    return op


def loop(
    body: Iterable[OperatorDef],
    trips: int | str,
    name: str = "loop",
    before: Iterable[OperatorDef] = (),
) -> list[OperatorDef]:
    """A While that runs so often, and the fills before it.

    `trips` may be a blob that tells how often; `before` stands in the condition net.
    """
    i, one, last, go = (f"{name}_{each}" for each in ("i", "one", "last", "go"))
    count = [make("Add", f"{i} {one}", i), make("LE", f"{i} {last}", go)]
    return [
        number(i, 0),
        number(one, 1),
        make("Copy", trips, last) if isinstance(trips, str) else number(last, trips),
        number(go, 0, BOOL),
        make(
            "While",
            go,
            loop_net=net(f"{name}_body", *body),
            cond_net=net(f"{name}_condition", *before, *count),
        ),
    ]

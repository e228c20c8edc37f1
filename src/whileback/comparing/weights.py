"""Compares the weights and constants of two models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from whileback.comparing.constants import Constant
from whileback.comparing.difference import Change, Kind
from whileback.comparing.matching import Pairing
from whileback.comparing.tensors import distance
from whileback.graph.printing import tensor_text

__all__ = ["compare_weights", "pair_by_name"]

Constants = Mapping[ir.Value, Constant]


def pair_by_name(a: Constants, b: Constants, pairing: Pairing) -> None:
    """Make weights partners that have one name and other contents."""
    others = {value.name: value for value in b if value not in pairing.contents}
    for value in a:
        if value not in pairing.contents and value.name in others:
            pairing.pair_values(value, others[value.name])


def compare_weights(a: Constants, b: Constants, pairing: Pairing) -> Iterator[Change]:
    """Yield what changed: first what came and went, then what is off, by how far it is."""
    partners = set(pairing.values.values())
    changed = []
    for value, constant in a.items():
        if value in pairing.contents:
            continue
        other = pairing.values.get(value)
        if other is None or other not in b:
            yield _change("removed", value, constant)
        elif (change := _distance(value, constant, b[other])) is not None:
            changed.append(change)
    for value, constant in b.items():
        if value not in pairing.contents and value not in partners:
            yield _change("added", value, constant)
    yield from sorted(changed, key=lambda change: -change.numbers.get("relative", float("inf")))


def _change(kind: Kind, value: ir.Value, constant: Constant) -> Change:
    text = f"{value.name} : {_described(constant)} = {tensor_text(constant.tensor)}"
    return Change(kind, "initializer", str(value.name), text, constant.where)


def _distance(value: ir.Value, a: Constant, b: Constant) -> Change | None:
    name, old, new = str(value.name), _described(a), _described(b)
    if old != new:
        return Change("changed", "initializer", name, f"{name} : {old} → {new}", a.where)
    off = distance(a.tensor, b.tensor)
    if off is None:
        return None
    return Change(
        "changed", "initializer", name, f"{name} : {old}: {off}", a.where, (), off.numbers()
    )


def _described(constant: Constant) -> str:
    dims = ",".join(str(dim) for dim in constant.tensor.shape)
    return f"{constant.tensor.dtype.name}[{dims}]"

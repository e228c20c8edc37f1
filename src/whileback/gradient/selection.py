"""Finding the values that a caller names, and refusing those that have no gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from whileback.errors import ArgumentError, nearest
from whileback.graph.scopes import definitions, subgraphs, walk
from whileback.graph.shapes import FLOATS, describe

__all__ = ["listed", "refuse_optionals", "select"]


def listed(names: str | Sequence[str]) -> list[str]:
    """Return one name, or several, as a list.

    Raises: ArgumentError for anything else.
    """
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"of= and wrt= take the name of a value, or a list of names, but got {names!r}."
        )
    return list(names)


def select(model: ir.Model, names: Sequence[str], argument: str) -> list[ir.Value]:
    """Return the float values of the main graph that have these names.

    Args:
        model: in normal form.
        names: the names, each once.
        argument: "of" or "wrt", for messages.

    Raises:
        ArgumentError: for no name, a name given twice, an unknown one, one inside a subgraph, and
            a value whose type has no gradient.
    """
    if not names:
        raise ArgumentError(f"{argument}= is empty; name at least one value of the main graph.")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ArgumentError(f"{argument}= names {_quoted(repeated)} more than once.")
    known = {value.name: value for value in definitions(model.graph) if value.name}
    found = []
    for name in names:
        if name not in known:
            raise ArgumentError(_unknown(model, name, argument, list(known)))
        value = known[name]
        if value.dtype not in FLOATS or not isinstance(value.type, ir.TensorType):
            raise ArgumentError(_without_gradient(value, argument))
        found.append(value)
    return found


def refuse_optionals(model: ir.Model, names: Sequence[str], argument: str) -> None:
    """Refuse optionals of these names: what is in them is about to take their places.

    Raises: ArgumentError.
    """
    for value in definitions(model.graph):
        if value.name in names and isinstance(value.type, ir.OptionalType):
            raise ArgumentError(_without_gradient(value, argument))


def _without_gradient(value: ir.Value, argument: str) -> str:
    return (
        f"{argument}= names '{value.name}', which is {describe(value)}: only FLOAT, DOUBLE, "
        "FLOAT16 and BFLOAT16 tensors have gradients. Name another value."
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _unknown(model: ir.Model, name: str, argument: str, known: Sequence[str]) -> str:
    for node in walk(model.graph):
        for graph in subgraphs(node):
            if any(value.name == name for value in definitions(graph)):
                return (
                    f"{argument}= names '{name}', which is inside '{graph.name}' of node "
                    f"'{node.name}' ({node.op_type}): it has one value for each time that runs. "
                    "Make it an output of that node (a scan output of a loop) and name that."
                )
    # Hints begin with what is mostly meant, which is last among the definitions.
    outputs = [str(value.name) for value in model.graph.outputs] if argument == "of" else []
    return (
        f"{argument}= names '{name}', but the main graph of model '{model.graph.name}' has no such "
        f"value; {nearest(name, dict.fromkeys([*outputs, *known]))}"
    )

"""What a page shows of a model, as plain data: nodes, values and graphs by their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from whileback.graph.tape import Tape

__all__ = ["Change", "Document", "Graph", "Lane", "Node", "Section", "Value", "to_data"]

# Nodes of the model, those of its gradient, and what is computed from gradients, as in training.
Lane = Literal["forward", "gradient", "update"]


@dataclass(frozen=True)
class Value:
    """A value: an edge of the drawing.

    Attributes:
        name, type: such as `h` and `FLOAT[B,4]`.
        constant: of weights and constants the elements, if they are few, or what they are like.
    """

    name: str
    type: str
    constant: str = ""


@dataclass(frozen=True)
class Change:
    """How a node differs from that of another model, line by line."""

    kind: Literal["added", "removed", "changed"]
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """A node; `None` in `inputs` is one that is left out.

    Attributes:
        operator: with its domain, if that is not ONNX's own.
        lane: the side of the drawing that it stands on.
        attributes: as text, by their names; graphs are no part of it.
        bodies: the numbers of its graphs; a call of a function has the function's.
        source: the number of the model's node that a node of a gradient stems from.
        origin: that one's name, also where there is no such node.
    """

    name: str
    operator: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    lane: Lane = "forward"
    attributes: Mapping[str, str] = field(default_factory=dict)
    bodies: tuple[int, ...] = ()
    source: int | None = None
    origin: str = ""
    doc: str = ""
    tape: Tape | None = None
    change: Change | None = None


@dataclass(frozen=True)
class Section:
    """Nodes that are drawn as one box until it is unfolded."""

    title: str
    items: tuple[int | Section, ...]

    def nodes(self) -> Iterator[int]:
        """Yield the numbers of the nodes, those of inner sections included."""
        for item in self.items:
            yield from item.nodes() if isinstance(item, Section) else (item,)


@dataclass(frozen=True)
class Graph:
    """The main graph, a body, or a function.

    Attributes:
        title: the attribute that holds a body, such as `then_branch`, or a name.
        lanes: what stands on each side, from the top of the model to its end.
        upward: whether the gradient runs from the end of the model to its top.
    """

    title: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    lanes: Mapping[Lane, tuple[int | Section, ...]]
    upward: bool = True
    doc: str = ""


@dataclass(frozen=True)
class Document:
    """A model; its first graph is the main one.

    Attributes:
        facts: what is told of the model as a whole, such as its opsets.
        changes: what changed that is no node's, if models are compared.
    """

    name: str
    facts: Mapping[str, str]
    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    graphs: tuple[Graph, ...]
    doc: str = ""
    changes: tuple[tuple[str, str], ...] = ()


def to_data(part: Any) -> Any:
    """Return a document, or a part of it, as what JSON has; members that are as usual are left out.

    >>> to_data(Value("h", "FLOAT[]"))
    {'name': 'h', 'type': 'FLOAT[]'}
    """
    if is_dataclass(part):
        return {
            each.name: to_data(getattr(part, each.name))
            for each in fields(part)
            if getattr(part, each.name) not in (each.default, (), {})
        }
    if isinstance(part, Mapping):
        return {key: to_data(value) for key, value in part.items()}
    return [to_data(each) for each in part] if isinstance(part, tuple) else part

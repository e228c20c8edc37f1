"""What there is to know of a model at first: inputs, outputs, what it is made of, its loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import onnx_ir as ir

from whileback.gradient.transform import names
from whileback.graph.names import node_name
from whileback.graph.origin import ORIGIN, is_new
from whileback.graph.printing import operator_text, opset_texts, tensor_text
from whileback.graph.scopes import bodies, is_standard, walk, walk_graphs
from whileback.graph.shapes import describe
from whileback.graph.tape import Tape, tape_of
from whileback.graph.tensors import known_tensor

__all__ = ["Block", "Port", "Summary", "Weight", "label", "summarize"]


@dataclass(frozen=True)
class Weight:
    """A constant tensor of a model: its name, type and shape, and its size in bytes."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class Port:
    """An input or output: its name, its type and shape, and the default of an input as text."""

    name: str
    type: str
    default: str = ""


@dataclass(frozen=True)
class Block:
    """A node with bodies or branches.

    Attributes:
        name: the node's, or that of its first output.
        operator: `Loop`, `Scan`, `If`, or one of another domain.
        source: the node whose gradient it belongs to; empty if it is the model's own.
        bodies: how many nodes each of its graphs has, those inside of these included.
        tape: of a loop that was differentiated, what its trips keep, and why.
        inner: the blocks in its graphs.
    """

    name: str
    operator: str
    source: str
    bodies: Mapping[str, int]
    tape: Tape | None
    inner: tuple[Block, ...]

    @property
    def depth(self) -> int:
        """How many levels there are, its own included."""
        return 1 + max((block.depth for block in self.inner), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the block as plain data, as `whileback show --json` prints it."""
        return {
            **vars(self),
            "bodies": dict(self.bodies),
            "tape": self.tape and asdict(self.tape),
            "inner": [block.to_dict() for block in self.inner],
        }


@dataclass(frozen=True)
class Summary:
    """What a model is.

    Attributes:
        name: of its graph.
        opsets: such as `ai.onnx@21`.
        ir_version: of the file's format.
        inputs, outputs: those of the main graph.
        gradients: which outputs are gradients of what, and which inputs cotangents, by `names`.
        weights: all initializers and constants, the largest first.
        own_nodes, gradient_nodes: how many nodes of each operator the model has, bodies included:
            its own, and those that belong to gradients. Constants are not counted.
        blocks: the nodes of the main graph with bodies or branches.
        functions: how many nodes each of the model's own functions has.
    """

    name: str
    opsets: tuple[str, ...]
    ir_version: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    gradients: Mapping[str, str]
    weights: tuple[Weight, ...]
    own_nodes: Mapping[str, int]
    gradient_nodes: Mapping[str, int]
    blocks: tuple[Block, ...]
    functions: Mapping[str, int]

    @property
    def depth(self) -> int:
        """How many loops and branches are nested at most."""
        return max((block.depth for block in self.blocks), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data, as `whileback show --json` prints it."""
        return {
            **vars(self),
            "opsets": list(self.opsets),
            "inputs": [vars(port) for port in self.inputs],
            "outputs": [vars(port) for port in self.outputs],
            "weights": [vars(weight) for weight in self.weights],
            "blocks": [block.to_dict() for block in self.blocks],
        }


def summarize(model: ir.Model) -> Summary:
    """Return what there is to know of a model at first. External data is not read."""
    graph = model.graph
    nodes = [node for node in walk(graph) if not is_standard(node, "Constant")]
    return Summary(
        graph.name or "model",
        tuple(opset_texts(model)),
        model.ir_version,
        tuple(map(_port, graph.inputs)),
        tuple(map(_port, graph.outputs)),
        names(model),
        tuple(sorted(_weights(model), key=lambda weight: -weight.bytes)),
        _operators(node for node in nodes if not is_new(node)),
        _operators(node for node in nodes if is_new(node)),
        tuple(_blocks(graph)),
        {f"{f.domain}::{f.name}": _size(f.graph) for f in model.functions.values()},
    )


def label(node: ir.Node) -> str:
    """Return what a node is called: its name, or else that of its first output."""
    return node_name(node) or node.op_type


def _port(value: ir.Value) -> Port:
    default = "" if value.const_value is None else tensor_text(value.const_value)
    return Port(str(value.name), describe(value), default)


def _operators(nodes: Iterable[ir.Node]) -> Mapping[str, int]:
    return dict(Counter(map(operator_text, nodes)).most_common())


def _blocks(graph: ir.Graph) -> Iterator[Block]:
    for node in graph:
        held = bodies(node)
        if held:
            yield Block(
                label(node),
                node.op_type,
                node.metadata_props.get(ORIGIN, ""),
                {name: _size(inner) for name, inner in held.items()},
                tape_of(node),
                tuple(block for inner in held.values() for block in _blocks(inner)),
            )


def _size(graph: ir.Graph) -> int:
    return sum(not is_standard(node, "Constant") for node in walk(graph))


def _weights(model: ir.Model) -> Iterator[Weight]:
    functions = [function.graph for function in model.functions.values()]
    for whole in (model.graph, *functions):
        for graph in walk_graphs(whole):
            yield from map(_weight, graph.initializers.values())
            for node in graph:
                if is_standard(node, "Constant"):
                    yield _weight(node.outputs[0])


def _weight(value: ir.Value) -> Weight:
    tensor = known_tensor(value)
    if tensor is None:
        return Weight(str(value.name), describe(value), 0)
    shape = ",".join(map(str, tensor.shape))
    size = ceil(tensor.size * tensor.dtype.itemsize)
    return Weight(str(value.name), f"{tensor.dtype.name}[{shape}]", size)

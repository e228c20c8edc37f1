"""Which opset and IR version a model has, can have and needs."""

from __future__ import annotations

import onnx_ir as ir

from whileback.errors import UnsupportedError
from whileback.graph.lowering import lower_graph
from whileback.graph.names import label
from whileback.graph.schemas import problem
from whileback.graph.scopes import definitions, walk, walk_graphs

__all__ = ["IR_VERSION", "LAST_WITHOUT_OUTPUT_DTYPE", "fits", "limit_versions", "target_opset"]

# ONNX Runtime 1.32 refuses models of newer opsets in which `DequantizeLinear` of INT8 stands before
# a `Transpose` or a `Reshape`: it moves pairs across, says `output_dtype`, and changes their type.
LAST_WITHOUT_OUTPUT_DTYPE = 20

OLDEST_OPSET = 7
OPSET = 21
IR_VERSION = 10

# Newer versions that mean something else though nothing in the node's form shows it.
_REDEFINED = frozenset(
    {
        ("Scan", 9),
        ("Softmax", 13),
        ("LogSoftmax", 13),
        ("Hardmax", 13),
        ("RoiAlign", 16),
        ("GridSample", 20),
        ("GroupNormalization", 21),
    }
)
# The IR version that brought each type which is newer than those that we read.
_TYPES = {
    "FLOAT8E4M3FN": 9,
    "FLOAT8E4M3FNUZ": 9,
    "FLOAT8E5M2": 9,
    "FLOAT8E5M2FNUZ": 9,
    "INT4": 10,
    "UINT4": 10,
    "FLOAT4E2M1": 11,
    "FLOAT8E8M0": 12,
    "INT2": 13,
    "UINT2": 13,
}
_INITIALIZERS = 4


def target_opset(model_opset: int, cap: int | None) -> int:
    """Return the opset to lift to: 21 or the model's own if that is newer, but not above the cap.

    A cap below the model's own opset is no target: nodes can only be lifted.

    Raises: UnsupportedError for a model that is too old to be lifted.
    """
    if model_opset < OLDEST_OPSET:
        raise UnsupportedError(
            f"Opset {model_opset} of ai.onnx is older than {OLDEST_OPSET}, the oldest that is "
            "read. Export the model again, or convert it with "
            "onnx.version_converter.convert_version."
        )
    newest = max(model_opset, OPSET)
    return newest if cap is None else max(model_opset, min(newest, cap))


def fits(graph: ir.Graph, opset: int) -> bool:
    """Tell whether the nodes of a graph in normal form are the same in an older opset."""
    have = graph.opset_imports[""]
    return all(_needed(node, opset, have) <= opset for node in walk(graph) if not node.domain)


def limit_versions(model: ir.Model, opset: int | None, ir_version: int | None) -> None:
    """Declare an opset and an IR version no newer than these, if the model can be had in them.

    Nodes are written in the form of the older opset where `lowering.py` knows how. An operator
    fits an opset if that had the same form of it, with the same meaning and the types used.

    Args:
        model: in normal form.
        opset: the newest opset of the default domain, or None.
        ir_version: the newest IR version, or None.

    Raises: UnsupportedError, naming the operator or the value that needs more.
    """
    have = model.graph.opset_imports[""]
    if opset is not None and opset < have:
        lower_graph(model.graph, have, opset)
        nodes = [node for node in walk(model.graph) if not node.domain]
        needed, node = max(((_needed(n, opset, have), n) for n in nodes), key=lambda pair: pair[0])
        if needed > opset:
            raise UnsupportedError(
                f"opset={opset} cannot be kept: node {label(node)} (ai.onnx@{have}::"
                f"{node.op_type}) needs opset {needed}. Allow opset {needed}, or change the model."
            )
        model.graph.opset_imports[""] = opset
    if ir_version is not None and ir_version < model.ir_version:
        _check_ir_version(model.graph, ir_version)
        model.ir_version = ir_version


def _needed(node: ir.Node, least: int, have: int) -> int:
    """Return the oldest opset from `least` on that has the node's operator as it is in `have`."""
    redefined = [version for op_type, version in _REDEFINED if op_type == node.op_type]
    least = max([least, *(version for version in redefined if version <= have)])
    return next((v for v in range(least, have) if problem(node, v) is None), have)


def _check_ir_version(graph: ir.Graph, cap: int) -> None:
    if cap < _INITIALIZERS and any(not v.is_graph_input() for v in graph.initializers.values()):
        raise UnsupportedError(
            f"ir_version={cap} cannot be kept: initializers that are no inputs need IR version "
            f"{_INITIALIZERS}. Allow that."
        )
    for each in walk_graphs(graph):
        for value in definitions(each):
            needed = 0 if value.dtype is None else _TYPES.get(value.dtype.name, 0)
            if needed > cap:
                raise UnsupportedError(
                    f"ir_version={cap} cannot be kept: '{value.name}' is {value.dtype}, which "
                    f"needs IR version {needed}. Allow that, or change the model."
                )

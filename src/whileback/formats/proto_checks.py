"""What is refused in a ModelProto before it becomes an `ir.Model`.

A file may claim anything: 2^40 elements and no data, a weight in /etc, subgraphs a thousand deep.
Here every claim is held against what the file really holds, before anything acts on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from whileback.errors import FormatError, GraphError, UnsupportedError
from whileback.formats.external_data import DataFolder, Reference

__all__ = ["MAX_NESTING", "check_model", "check_nesting"]

# Protobuf reads 100 nested messages: a subgraph takes three, what stands in the innermost one
# up to ten.
MAX_NESTING = 30
OLDEST_IR_VERSION = 3
OLDEST_OPSET = 7
# NumPy makes no larger arrays, not even with a dimension of zero beside (16 bytes an element).
_MAX_ELEMENTS = 2**59 - 1


def check_model(model: onnx.ModelProto, folder: DataFolder | None) -> None:
    """Refuse a `model` that cannot be read safely; its data files may lie in `folder` alone.

    Raises:
        FormatError: a tensor's size, data or external reference is wrong.
        GraphError: a name is written twice, or missing where one is needed.
        UnsupportedError: versions too old or too new, sparse tensors, or nesting too deep.
    """
    _check_versions(model)
    _check_graph(model.graph, folder, depth=0)
    for function in model.functions:
        _check_opsets(function.opset_import)
        _check_function(function, folder)


def check_nesting(depth: int, name: str) -> None:
    """Refuse the graph `name` when it lies too many subgraphs deep for a file to hold."""
    if depth > MAX_NESTING:
        raise UnsupportedError(
            f"graph {name!r} is nested {depth} subgraphs deep, and a file holds at most "
            f"{MAX_NESTING}; move inner bodies outwards"
        )


def _check_versions(model: onnx.ModelProto) -> None:
    if not model.HasField("graph"):
        raise FormatError("holds no graph, so it is no ONNX model; check that this is the file")
    if model.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"IR version {model.ir_version} is newer than {onnx.IR_VERSION}, the newest that the "
            f"installed onnx {onnx.__version__} knows; upgrade the package onnx"
        )
    if model.ir_version < OLDEST_IR_VERSION:
        raise UnsupportedError(
            f"IR version {model.ir_version} is older than {OLDEST_IR_VERSION}, the oldest that is "
            "read; export the model again"
        )
    if not model.opset_import:
        raise FormatError("imports no opset; the file is truncated, write it again")
    _check_opsets(model.opset_import)


def _check_opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in imports:
        if opset.domain not in ("", "ai.onnx"):
            continue
        if opset.version < OLDEST_OPSET:
            raise UnsupportedError(
                f"opset {opset.version} of ai.onnx is older than {OLDEST_OPSET}, the oldest that "
                "is read; convert it with onnx.version_converter.convert_version, or export the "
                "model again"
            )
        if opset.version > newest:
            raise UnsupportedError(
                f"opset {opset.version} of ai.onnx is newer than {newest}, the newest that the "
                f"installed onnx {onnx.__version__} knows; upgrade the package onnx"
            )


def _check_graph(graph: onnx.GraphProto, folder: DataFolder | None, depth: int) -> None:
    check_nesting(depth, graph.name)
    where = f"graph {graph.name!r}"
    for i, tensor in enumerate(graph.initializer):
        if not tensor.name:
            raise GraphError(f"initializer {i} of {where} has no name; give it one")
        _check_tensor(tensor, f"initializer {tensor.name!r} of {where}", folder)
    for sparse in graph.sparse_initializer:
        _check_sparse(sparse, f"sparse initializer {sparse.values.name!r} of {where}", folder)
    _check_distinct([value.name for value in graph.input], f"an input of {where}")
    _check_distinct([tensor.name for tensor in graph.initializer], f"an initializer of {where}")
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    _check_nodes(graph.node, given, where, folder, depth)


def _check_function(function: onnx.FunctionProto, folder: DataFolder | None) -> None:
    where = f"function {function.domain}::{function.name}"
    for attribute in function.attribute_proto:
        _check_attribute(attribute, where, folder, depth=0)
    _check_distinct(function.input, f"an input of {where}")
    _check_nodes(function.node, set(function.input), where, folder, depth=0)
    known = {name for node in function.node for name in node.output}.union(function.input)
    for name in function.output:
        if name not in known:
            raise GraphError(f"output {name!r} of {where} is written by none of its nodes")


def _check_distinct(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"{name!r} is twice {what}; rename one of them")
        seen.add(name)


def _check_nodes(
    nodes: Iterable[onnx.NodeProto],
    given: set[str],
    where: str,
    folder: DataFolder | None,
    depth: int,
) -> None:
    """Check the attributes of `nodes`, and that none writes a name twice or one of `given`."""
    writers: dict[str, str] = {}
    for node in nodes:
        for name in filter(None, node.output):
            if name in given or name in writers:
                before = writers.get(name, "an input or initializer")
                raise GraphError(
                    f"{name!r} of {where} is written twice: it is {before}, and then an output "
                    f"of {_described(node)}; rename one of them"
                )
            writers[name] = f"an output of {_described(node)}"
        for attribute in node.attribute:
            if attribute.type in _HOLDERS:
                _check_attribute(attribute, f"{_described(node)} in {where}", folder, depth)


def _described(node: onnx.NodeProto) -> str:
    name = node.name or next(filter(None, node.output), "")
    return f"node {name!r} ({node.op_type})"


# The attribute types that hold tensors or graphs: all others are plain values.
_HOLDERS = frozenset(
    {
        onnx.AttributeProto.TENSOR,
        onnx.AttributeProto.TENSORS,
        onnx.AttributeProto.GRAPH,
        onnx.AttributeProto.GRAPHS,
        onnx.AttributeProto.SPARSE_TENSOR,
        onnx.AttributeProto.SPARSE_TENSORS,
    }
)


def _check_attribute(
    attribute: onnx.AttributeProto, owner: str, folder: DataFolder | None, depth: int
) -> None:
    if attribute.ref_attr_name:
        return
    where = f"attribute {attribute.name!r} of {owner}"
    graphs = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
    tensors = [attribute.t] if attribute.type == onnx.AttributeProto.TENSOR else attribute.tensors
    for graph in graphs:
        _check_graph(graph, folder, depth + 1)
    for tensor in tensors:
        _check_tensor(tensor, where, folder)
    if attribute.HasField("sparse_tensor"):
        _check_sparse(attribute.sparse_tensor, where, folder)
    for sparse in attribute.sparse_tensors:
        _check_sparse(sparse, where, folder)


def _check_sparse(sparse: onnx.SparseTensorProto, where: str, folder: DataFolder | None) -> None:
    _check_tensor(sparse.values, f"values of {where}", folder)
    _check_tensor(sparse.indices, f"indices of {where}", folder)
    raise UnsupportedError(f"{where} is a sparse tensor, which is not read; store it dense")


_DATA = (
    "raw_data",
    "float_data",
    "int32_data",
    "string_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


@dataclass(frozen=True)
class _Claim:
    """What a tensor says about itself: `where` names it in errors."""

    tensor: onnx.TensorProto
    where: str
    dtype: ir.DataType

    @property
    def type(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.tensor.dims))}]"

    @property
    def size(self) -> int:
        elements: int = math.prod(self.tensor.dims)
        return elements

    @property
    def nbytes(self) -> int:
        return -(-self.size * self.dtype.bitwidth // 8)

    @property
    def entries(self) -> int:
        """How many entries of its typed field the elements take."""
        if self.dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            return 2 * self.size
        if self.dtype != ir.DataType.STRING and self.dtype.bitwidth in (2, 4):
            return self.nbytes
        return self.size

    def refused(self, problem: str) -> FormatError:
        return FormatError(f"{self.where}: {problem}")


def _check_tensor(tensor: onnx.TensorProto, where: str, folder: DataFolder | None) -> None:
    claim = _Claim(tensor, where, _dtype(tensor, where))
    if any(dim < 0 for dim in tensor.dims):
        raise claim.refused(f"{claim.type} has a negative dimension; write the model again")
    if math.prod(max(dim, 1) for dim in tensor.dims) > _MAX_ELEMENTS:
        raise claim.refused(f"{claim.type} is larger than any memory; write the model again")
    if tensor.HasField("segment"):
        raise claim.refused("it is a segment of a larger tensor, which is not read; store it whole")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _check_external(claim, folder)
    else:
        _check_data(claim)


def _dtype(tensor: onnx.TensorProto, where: str) -> ir.DataType:
    if tensor.data_type == ir.DataType.UNDEFINED:
        raise FormatError(f"{where}: its data type is missing; write the model again")
    try:
        return ir.DataType(tensor.data_type)
    except ValueError:
        raise FormatError(
            f"{where}: data type {tensor.data_type} is not one that the installed onnx "
            f"{onnx.__version__} knows; upgrade the package onnx"
        ) from None


def _check_data(claim: _Claim) -> None:
    """Hold the number of elements that the dimensions promise against the data that is there."""
    if claim.tensor.HasField("raw_data") and claim.dtype != ir.DataType.STRING:
        field, needed, unit = "raw_data", claim.nbytes, "bytes"
    else:
        field = onnx.helper.tensor_dtype_to_field(claim.tensor.data_type)
        needed, unit = claim.entries, "entries"
    found = len(getattr(claim.tensor, field))
    if found != needed:
        raise claim.refused(
            f"{claim.type} needs {needed} {unit} of {field}, and the file holds {found}; "
            "it is damaged, write the model again"
        )
    other = next((each for each in _DATA if each != field and getattr(claim.tensor, each)), None)
    if other is not None:
        raise claim.refused(
            f"{claim.type} is stored in {field}, and the file holds {other}, too; it is damaged, "
            "write the model again"
        )


def _check_external(claim: _Claim, folder: DataFolder | None) -> None:
    if claim.dtype == ir.DataType.STRING:
        raise claim.refused("strings cannot be external data; store them in the model")
    entries = {entry.key: entry.value for entry in claim.tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise claim.refused(
            f"its data lies in the file {location!r}, and nothing says in which folder; "
            "pass base_dir="
        )
    folder.check(
        Reference(
            where=claim.where,
            type=claim.type,
            location=location,
            offset=_number(claim, "offset", entries.get("offset", "0")),
            length=_number(claim, "length", entries.get("length", str(claim.nbytes))),
            nbytes=claim.nbytes,
        )
    )


def _number(claim: _Claim, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise claim.refused(
            f"external data {key} {text[:40]!r} is not a number of bytes; write the model again"
        )
    return int(text)

"""ONNX's text form, read and written by the parser and printer of the package onnx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import onnx
import onnx.parser
import onnx.printer
from google.protobuf.message import DecodeError

from whileback.errors import FormatError

__all__ = ["is_text", "parse", "to_text"]

_SUFFIXES = (".onnxtxt", ".txt")
# The parser of onnx recurses without a limit of its own, and ends the process when it goes deep.
_MAX_BRACKETS = 100
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*')
_POSITION = re.compile(r"\(line: (\d+) column: (\d+)\)")


def is_text(path: Path) -> bool:
    """Say whether `path` names a file in text form: `.onnx.txt`, `.onnxtxt` or `.txt`."""
    return path.suffix.lower() in _SUFFIXES


def parse(data: bytes) -> onnx.ModelProto:
    """Return the model that `data` spells out.

    Raises:
        FormatError: the text has a mistake, named with its line and column.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"byte {error.start} is not UTF-8, so this is no text; name a binary model .onnx"
        ) from None
    _check_brackets(text)
    try:
        return onnx.parser.parse_model(text)
    except onnx.parser.ParseError as error:
        raise FormatError(_explained(error)) from None
    except (IndexError, OverflowError, ValueError) as error:  # of the parser's numbers
        raise FormatError(f"holds a number that is none, or too large ({error})") from None
    except DecodeError:
        raise FormatError("is nested too deep to be read; move inner bodies outwards") from None


def to_text(model: onnx.ModelProto) -> str:
    """Return `model` as text that reads back to the same tensors.

    Names of tensors in attributes mean nothing and are left out: the parser refuses many of them.
    Node metadata and documentation have no text form.

    Raises:
        FormatError: the text form cannot hold one of the model's tensors or names.
    """
    printed = onnx.ModelProto()
    printed.CopyFrom(model)
    for _, tensor in _attribute_tensors(printed):
        tensor.ClearField("name")
    text = onnx.printer.to_text(printed)
    try:
        again = parse(text.encode("utf-8"))
    except FormatError as error:
        raise FormatError(
            "onnx prints this model as text that it cannot read back, as with INT4 data or "
            "external data in attributes; write .onnx"
        ) from error
    for (where, tensor), (_, read) in zip(_tensors(printed), _tensors(again), strict=True):
        if not _equal(tensor, read):
            raise FormatError(f"the text form cannot hold the values of {where}; write .onnx")
    return text


def _tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for graph in [model.graph, *(graph for node in _nodes(model) for graph in _bodies(node))]:
        for tensor in graph.initializer:
            yield f"initializer {tensor.name!r}", tensor
    yield from _attribute_tensors(model)


def _attribute_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in _nodes(model):
        for attribute in node.attribute:
            for tensor in [attribute.t] if attribute.HasField("t") else attribute.tensors:
                yield f"the tensor in the node that writes {', '.join(node.output)!r}", tensor


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    pending = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in pending:
        yield node
        pending.extend(inner for graph in _bodies(node) for inner in graph.node)


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def _check_brackets(text: str) -> None:
    bare = _STRING_OR_COMMENT.sub("", text)
    steps = ((character in "([{") - (character in ")]}") for character in bare)
    if max(accumulate(steps), default=0) > _MAX_BRACKETS:
        raise FormatError(
            f"brackets are nested more than {_MAX_BRACKETS} deep; move inner bodies outwards"
        )


def _explained(error: onnx.parser.ParseError) -> str:
    """Return the parser's own words, position first; it gives them as printed bytes."""
    words = str(error).removeprefix("b'").removesuffix("'").split("\\n")
    position = _POSITION.search(words[0])
    place = f"line {position[1]}, column {position[2]}: " if position else ""
    return f"{place}{words[-1].rstrip('.')}; correct the text"


def _equal(left: onnx.TensorProto, right: onnx.TensorProto) -> bool:
    if left.data_location == onnx.TensorProto.EXTERNAL:
        return list(left.external_data) == list(right.external_data)
    if left.data_type == onnx.TensorProto.STRING:
        return list(left.string_data) == list(right.string_data)
    a, b = onnx.numpy_helper.to_array(left), onnx.numpy_helper.to_array(right)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

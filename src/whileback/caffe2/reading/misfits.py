"""What is said of an operator that cannot be computed from what it was given."""

from __future__ import annotations

from whileback.caffe2.operators.registry import Operator
from whileback.errors import NetDefError, WhilebackError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import Argument
from whileback.graph.shapes import describe

__all__ = ["misfit"]

# A longer list is said by its length.
_SHOWN = 8


def misfit(node: Operator, error: Exception) -> NetDefError:
    """Return the error that tells all that an operator was given; `error` is what came of it."""
    reason = f" ({error})" if isinstance(error, WhilebackError) else ""
    blobs = zip(node.proto.input, node.inputs, strict=True)
    given = [f"'{name}' {'none' if v is None else describe(v)}" for name, v in blobs]
    args = [f"{arg.name}={_value(arg)}" for arg in node.proto.arg]
    return NetDefError(
        f"{label(node.proto)} cannot be computed from the inputs {', '.join(given) or 'none'} with "
        f"the arguments {', '.join(args) or 'none'}: they do not fit each other{reason}. Correct "
        "them, or the shapes of the net's inputs."
    )


def _value(arg: Argument) -> str:
    """Return what an argument holds, in short."""
    for field, value in arg.ListFields()[1:]:
        if field.name in ("i", "f", "s"):
            return repr(value)
        if field.name in ("ints", "floats", "strings"):
            return str(list(value)) if len(value) <= _SHOWN else f"{len(value)} {field.name}"
        return field.name
    return "nothing"

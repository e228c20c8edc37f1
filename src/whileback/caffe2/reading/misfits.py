"""What is said of an operator that does not fit what it was given, when read or when run."""

from __future__ import annotations

from collections.abc import Iterable

from whileback.caffe2.reading.nets import Block
from whileback.errors import EngineError, NetDefError, UnsupportedError, WhilebackError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import Argument, OperatorDef

__all__ = ["failure", "misfit"]

# A longer list is said by its length.
_SHOWN = 8


def misfit(op: OperatorDef, verb: str, inputs: Iterable[str], error: Exception) -> NetDefError:
    """Return the error that tells all that an operator was given.

    Args:
        op: the operator.
        verb: what cannot be done, such as "computed".
        inputs: what it reads, in words.
        error: what came of it.
    """
    reason = f" ({error})" if isinstance(error, WhilebackError) else ""
    args = [f"{arg.name}={_value(arg)}" for arg in op.arg]
    return NetDefError(
        f"{label(op)} cannot be {verb} with the inputs {', '.join(inputs) or 'none'} and the "
        f"arguments {', '.join(args) or 'none'}: they do not fit each other{reason}. Correct them, "
        "or say what the net's inputs are, which count as FLOAT of unknown shape otherwise: "
        "`--input NAME=INT64:2,3` on the command line, `inputs=` in Python."
    )


def failure(block: Block, error: EngineError) -> WhilebackError:
    """Return the error that tells which operators of a net the runtime failed at.

    Nodes are named after the blobs that they are emitted for. Where the runtime tells of no node,
    its error is all that can be said.
    """
    steps = list(block.walk())
    written = {name for step in steps for name in step.proto.output}
    blob = max((name for name in written if error.node.startswith(f"{name}/")), key=len, default="")
    found = [step for step in steps if blob and blob in step.proto.output]
    if not found:
        return error
    # Loops and branches list what operators inside them write.
    inner = [step for step in found if not step.nets] or found
    writers = " or ".join(dict.fromkeys(label(step.proto) for step in inner))
    if not error.reason:
        return UnsupportedError(f"{writers} cannot be run on tensors of these types: {error}.")
    return NetDefError(
        f"{writers} fails with what its blobs hold: {error.reason}. Correct them, or the operator."
    )


def _value(arg: Argument) -> str:
    """Return what an argument holds, in short."""
    for field, value in arg.ListFields()[1:]:
        if field.name in ("i", "f", "s"):
            return repr(value)
        if field.name in ("ints", "floats", "strings"):
            return str(list(value)) if len(value) <= _SHOWN else f"{len(value)} {field.name}"
        return str(field.name)
    return "nothing"

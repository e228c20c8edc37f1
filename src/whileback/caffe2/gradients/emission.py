"""Small pieces of which gradient nets are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from whileback.caffe2.gradients.regions import Frame, Value
from whileback.formats.caffe2.arguments import add_argument, subnets
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

if TYPE_CHECKING:
    from whileback.caffe2.gradients.backward import Session

__all__ = ["copy_to", "deliver", "gradient_do", "pruned", "zeros_to"]


def copy_to(source: str, target: str) -> OperatorDef:
    """Return the operator that copies one blob to another."""
    return OperatorDef(type="Copy", input=[source], output=[target])


def zeros_to(value: Value, target: str) -> OperatorDef:
    """Return the operator that fills a blob with zeros of a value's shape."""
    op = OperatorDef(type="ConstantFill", input=[value.name], output=[target])
    add_argument(op, "value", 0.0)
    if value.dtype is not None:
        add_argument(op, "dtype", value.dtype)
    return op


def names_read(op: OperatorDef) -> set[str]:
    """Return the blobs that a gradient operator reads, or the nets inside it."""
    found = set(op.input)
    if op.type in ("If", "While", "Do"):
        for _, net in subnets(op):
            found.update(*(names_read(inner) for inner in net.op))
    return found


def pruned(ops: Sequence[OperatorDef], needed: Iterable[str]) -> list[OperatorDef]:
    """Return the operators on which something needed depends."""
    wanted, kept = set(needed), []
    for op in reversed(ops):
        if not wanted.isdisjoint(op.output):
            wanted |= names_read(op)
            kept.append(op)
    return kept[::-1]


def deliver(ops: list[OperatorDef], sources: Mapping[str, str]) -> None:
    """Let operators leave their results in other blobs, by the names that these have in `ops`.

    The operator that writes a result writes the other blob at once, where nothing reads either of
    them from there on; else a copy is added.
    """
    uses = Counter(sources.values())
    for target, source in sources.items():
        if uses[source] > 1 or not _redirected(ops, source, target):
            ops.append(copy_to(source, target))


def _redirected(ops: Sequence[OperatorDef], source: str, target: str) -> bool:
    """Let the operator that writes one blob write another one, and tell whether that was right."""
    both = {source, target}
    for op in reversed(ops):
        if not both.isdisjoint(names_read(op)) or target in op.output:
            return False
        if source in op.output:
            plain = op.type not in ("If", "While", "Do")
            if plain:
                op.output[list(op.output).index(source)] = target
            return plain
    return False


def gradient_do(
    session: Session, frame: Frame, ops: Sequence[OperatorDef], results: Sequence[str]
) -> OperatorDef:
    """Return the operator that pops a frame and runs gradient operators in it.

    Args:
        session: where the frame is noted down.
        frame: what was left by the forward operator.
        ops: the operators.
        results: the blobs they write that stand for blobs of the same names around the frame.
    """
    name = session.net_names.fresh(f"{frame.name}_grad")
    session.frames[name] = frame
    op = OperatorDef(type="Do", input=[frame.scope])
    op.output.extend([*results, frame.scope])
    add_argument(op, "net", NetDef(name=name, op=pruned(ops, results)))
    return op

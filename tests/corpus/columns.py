"""What of the corpus is judged: models in an opset, to an order."""

from __future__ import annotations

from dataclasses import dataclass

from tests.corpus.cases import cases
from tests.corpus.opsets import at_opset
from tests.corpus.verdicts import Verdict, judge

__all__ = ["COLUMNS", "Column", "Task", "verdict"]


@dataclass(frozen=True)
class Column:
    """One way to judge all models; without an opset each is in its own, the newest one it has."""

    title: str
    order: int = 1
    opset: int | None = None


COLUMNS = (
    Column("first order"),
    Column("second order", order=2),
    *(Column(f"opset {opset}", opset=opset) for opset in (9, 13, 17, 21)),
)

Task = tuple[Column, str]


def verdict(task: Task) -> Verdict | None:
    """Return the verdict on a model, by name, or None if it cannot be had in the column's opset."""
    column, name = task
    case = cases()[name]
    if column.opset is not None:
        older = at_opset(case, column.opset)
        if older is None:
            return None
        case = older
    return judge(case, column.order)

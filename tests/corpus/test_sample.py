"""A fixed sample of the corpus; `make corpus` judges all of it."""

import pytest
from tests.corpus.cases import cases
from tests.corpus.columns import COLUMNS, verdict


def sample(column):
    """Return a model of every operator, or for what takes longer of some of them."""
    names = {case.operator: case.name for case in reversed(cases().values())}
    share = COLUMNS.index(column) * 3 + 1
    return [names[operator] for operator in sorted(names)[share // 2 :: share]]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.title)
def test_no_gradient_is_wrong_or_refused(column):
    verdicts = {name: verdict((column, name)) for name in sample(column)}
    bad = [
        f"{name}: {verdict.status}: {verdict.detail}"
        for name, verdict in verdicts.items()
        if verdict is not None and verdict.status in ("wrong", "refused")
    ]
    assert not bad, "\n".join(bad)
    assert sum(verdict is not None for verdict in verdicts.values()) > 5

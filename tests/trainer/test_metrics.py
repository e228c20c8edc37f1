"""Accuracy, along whichever axis the classes are."""

import numpy as np
import pytest

from whileback import training
from whileback.errors import ArgumentError


@pytest.mark.parametrize(
    ("shape", "axis", "labels"),
    [
        ((2, 3), None, (2,)),
        ((2, 3, 4), None, (2, 4)),
        ((2, 4, 3), None, (2, 4)),
        ((2, 2, 2), -1, (2, 2)),
    ],
)
def test_accuracy(shape: tuple[int, ...], axis: int | None, labels: tuple[int, ...]) -> None:
    label = np.random.default_rng(0).integers(0, 2, labels)
    where = next(i for i in (1, -1) if np.delete(shape, axis or i).tolist() == list(labels))
    scores = np.moveaxis(np.eye(shape[axis or where])[label], -1, axis or where)
    share = training.accuracy("y", axis=axis)
    assert share({"label": label}, {"y": scores}) == 1
    label[0] = 1 - label[0]
    assert share({"label": label}, {"y": scores}) == 0.5


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(
        ArgumentError, match=r"Output 'y' has shape \[2, 3\], and label 'label' \[3\]"
    ):
        training.accuracy("y")({"label": np.zeros(3)}, {"y": np.zeros((2, 3))})

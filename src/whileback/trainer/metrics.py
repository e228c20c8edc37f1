"""What else than a loss tells how well a model does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from whileback.errors import ArgumentError
from whileback.signatures import require_types
from whileback.trainer.batches import Batch

__all__ = ["Metric", "accuracy"]

# Of a batch and the model's outputs for it.
Metric = Callable[[Batch, Mapping[str, np.ndarray]], float]


def accuracy(output: str, label: str = "label", axis: int | None = None) -> Metric:
    """Return what computes the share of labels that have the largest score, for `Run(metrics=…)`.

    Args:
        output: of the model, scores, logits or probabilities [N, C, …].
        label: the input with numbers of classes, INT64 [N, …].
        axis: of the classes; None for axis 1, or the last one if only that fits.

    >>> import numpy as np
    >>> share = accuracy("y")
    >>> share({"label": np.array([1, 0])}, {"y": np.array([[0.1, 0.9], [0.2, 0.8]])})
    0.5
    """
    require_types(accuracy, locals())

    def share(batch: Batch, outputs: Mapping[str, np.ndarray]) -> float:
        scores, labels = outputs[output], np.asarray(batch[label])
        for known in (1, -1) if axis is None else (axis,):
            if np.delete(scores.shape, known).tolist() == list(labels.shape):
                return float((scores.argmax(known) == labels).mean())
        raise ArgumentError(
            f"Output {output!r} has shape {list(scores.shape)}, and label {label!r} "
            f"{list(labels.shape)}, which is not the same without an axis of classes. Name another "
            "output, or the axis."
        )

    return share

"""The names of a step's inputs and outputs, as its metadata hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx_ir as ir

from whileback.errors import ArgumentError
from whileback.signatures import require_types

__all__ = ["Interface", "Part", "interface"]

_KEY = "whileback.training"


@dataclass(frozen=True)
class Part:
    """Where a parameter is in the vector of all of them."""

    name: str
    shape: list[int]
    offset: int

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Interface:
    """What the inputs and outputs of a step are; `whileback.names` tells what follows on what.

    Attributes:
        loss: the output that is made smaller.
        losses: by output, each loss, and what it reads: logits, or what else.
        parameters: the inputs that are trained.
        statistics: the inputs that are running statistics of the data.
        state: the inputs that else are kept between steps.
        learning_rate: the input FLOAT[] that has no default; empty for gradients alone.
        seed: the input INT64[], by default 0, that decides what is drawn; None if nothing is.
        scale: that of `state` by which the loss is scaled; None if it is not.
        averages: by parameter, the input that is its moving average.
        accumulate: so many calls make a step.
        flat: where in the only one of `parameters` each tensor is; empty if they are not joined.
    """

    loss: str
    losses: Mapping[str, str]
    parameters: list[str]
    statistics: list[str]
    state: list[str]
    learning_rate: str = ""
    seed: str | None = None
    scale: str | None = None
    averages: Mapping[str, str] = field(default_factory=dict)
    accumulate: int = 1
    flat: list[Part] = field(default_factory=list)

    def write(self, model: ir.Model) -> None:
        """Put this into a model's metadata."""
        model.metadata_props[_KEY] = json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> Interface:
        """Return what `asdict` has made plain."""
        return cls(**{**known, "flat": [Part(**part) for part in known.get("flat", [])]})


def interface(model: ir.Model) -> Interface:
    """Return what the inputs and outputs of a step are.

    Raises: ArgumentError for a model that `step` did not make.

    >>> import onnx_ir as ir
    >>> from whileback.training import step
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> known = interface(step(model, "mse", "adam"))
    >>> known.parameters, known.state
    (['w'], ['steps', 'w_mean', 'w_square'])
    >>> known.losses
    {'loss': "mse of 'y' as it is"}
    """
    require_types(interface, locals())
    if _KEY not in model.metadata_props:
        raise ArgumentError(
            f"Model '{model.graph.name}' is no training step: its metadata lack {_KEY!r}. Make one "
            "with whileback.training.step()."
        )
    return Interface.of(json.loads(model.metadata_props[_KEY]))

"""`gradients`: from a model to the model of its losses and their gradients, with no optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.derivation import derivation
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.transform import Quantized
from whileback.signatures import require_types
from whileback.training.differentiated import differentiated
from whileback.training.flat import flatten
from whileback.training.losses import Loss
from whileback.training.randomness import Dropping
from whileback.training.statistics import Statistics

__all__ = ["gradients"]


@derivation
def gradients(
    model: ir.Model,
    loss: str | Loss | Sequence[str | Loss],
    trainable: str | Sequence[str] | None = None,
    *,
    flat: bool = False,
    dropout: Dropping = None,
    quantized: Quantized = None,
    statistics: Statistics = "batch",
    memory: Memory = None,
) -> ir.Model:
    """Return a model of the losses and their gradients, for those who make the step elsewhere.

    Such as a server that averages the gradients of many. The model is that of `step` without an
    optimizer: its inputs are the model's own, labels, and with defaults the parameters and running
    statistics; its outputs are the losses, a gradient `<parameter>_grad` of each parameter, and the
    next running statistics. `whileback.names` maps parameters to gradients.

    Args:
        model: computes predictions; it stays as it is.
        loss: as for `step`, like the others.
        trainable: what has gradients.
        flat: one input `parameters` [P] in place of all parameters, and one output `gradients` [P],
            joined in the order of the names; `interface(…).flat` tells of each name, shape and
            offset, `joined` and `parted` make vectors of arrays and arrays of vectors.
        dropout: which `Dropout` nodes drop, as for `step`.
        quantized: as for `step`.
        statistics: as for `step`.
        memory: as for `whileback.gradient`.

    Raises:
        ArgumentError: a name or a pattern is unknown, or a loss does not fit its output; with
            `flat`, parameters of several types.
        NoGradientError: operators on the way have no rule; all of them are listed.
        UnsupportedError: a parameter is FLOAT16 or BFLOAT16.

    >>> import onnx_ir as ir, whileback
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {1.0}, float[1] b = {0.0}> {
    ...         z = MatMul(x, w) y = Add(z, b) }''')
    >>> f = whileback.compile(gradients(model, "mse", flat=True))
    >>> f(x=[[1.0], [2.0]], label=[[3.0], [6.0]])["gradients"].tolist()
    [-6.0, -10.0]
    """
    require_types(gradients, locals(), but=("model", "loss", "dropout"))
    work = differentiated(model, loss, trainable, memory, dropout, None, quantized, statistics)
    work.next |= work.parameters
    if not flat:
        return work.finish({w: str(g.name) for w, g in work.parameters.items()})
    layout, _ = flatten(work)
    return work.finish(dict.fromkeys(work.parameters, "gradients"), flat=layout)

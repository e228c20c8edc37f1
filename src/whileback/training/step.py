"""`step`: from a model to the model of one step of its training."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from whileback.gradient.derivation import derivation
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.transform import Quantized
from whileback.signatures import require_types
from whileback.training.accumulation import accumulated, check_calls
from whileback.training.average import check_average
from whileback.training.clipping import Clipping
from whileback.training.differentiated import differentiated
from whileback.training.flat import flatten
from whileback.training.groups import Group, rules
from whileback.training.losses import Loss
from whileback.training.optimizers import Optimizer, optimizer_named
from whileback.training.precision import Precision, precision_named
from whileback.training.randomness import Dropping
from whileback.training.scaling import Scaling
from whileback.training.statistics import Statistics
from whileback.training.updates import Updates

__all__ = ["step"]

# Arguments of which others say what is wrong with them.
_LOOKED_AT = ("model", "loss", "optimizer", "groups", "precision", "accumulate", "dropout")


@derivation
def step(
    model: ir.Model,
    loss: str | Loss | Sequence[str | Loss],
    optimizer: str | Optimizer,
    trainable: str | Sequence[str] | None = None,
    *,
    groups: Group | Sequence[Group] = (),
    no_decay: str | Sequence[str] = (),
    clip_norm: float | None = None,
    clip_value: float | None = None,
    dropout: Dropping = None,
    precision: str | Precision | None = None,
    quantized: Quantized = None,
    statistics: Statistics = "batch",
    accumulate: int = 1,
    average: float | None = None,
    flat: bool = False,
    memory: Memory = None,
) -> ir.Model:
    """Return a model that makes one step of training: parameters and a batch in, parameters out.

    Its inputs are the model's own, the labels of the losses, `learning_rate` FLOAT[], and, with
    their first values as defaults, the parameters, the running statistics of
    `BatchNormalization`, the optimizer's state `<parameter>_<part>`, and the number of `steps`
    made, where something depends on that. Its outputs are `loss`, with several losses each of them
    times its weight, `loss_0`, `loss_1` …, and then for each input that has changed what it is
    next, `<input>_next`, which `whileback.names` maps: outputs of one call are inputs of the next.
    What else the inputs and outputs are, `interface` tells. `BatchNormalization` of the main
    graph normalizes by the batch, unless `statistics` says otherwise. What is drawn at random is a
    function of the inputs `seed` INT64[], by default 0, and `calls` INT64[], the number of calls
    made, so that a run can be repeated; both are there where something is drawn.

    Args:
        model: computes predictions; it stays as it is.
        loss: a name in `LOSSES`, a loss with settings, or several, whose weighted sum is made
            smaller.
        optimizer: a name in `OPTIMIZERS`, or one with settings.
        trainable: patterns of the names of initializers and constants (`"*.weight"`); those in a
            subgraph are called `node/branch/name`. By default all float ones of at least one axis
            on which a loss depends, but for running statistics, settings of operators, such as
            the bounds of `Clip`, and `Constant` nodes of one element, which are numbers of
            formulas; in a model of `lora`, its adapters alone. What is not trained stays as it is
            in the model.
        groups: parameters with another factor to the rate, weight decay or optimizer; each is in
            one at most.
        no_decay: patterns of the names of parameters without weight decay, in groups or not.
        clip_norm: if all gradients together have a longer norm than this, they are scaled to it.
        clip_value: every element of a gradient is cut to ± this; before `clip_norm`.
        dropout: which `Dropout` nodes drop, at any depth: by default those that do in the model,
            which is none in one exported for inference. True: all of them, as much as each says.
            A number: all of them, with that ratio. A mapping of patterns of names of nodes: these,
            True or with a ratio, or not at all (False); a later one counts. The masks of all trips
            of a loop are made at once before it where that can be, unless `memory` is given.
        precision: "float16" or "bfloat16": products are computed in that type, parameters stay
            FLOAT, or become it; or a `Precision` with settings. With FLOAT16 the loss is scaled by
            the input `loss_scale` FLOAT[], and a step whose gradients are not finite is left out.
            ONNX Runtime's CPU computes no products in BFLOAT16.
        quantized: "straight-through" trains quantised models as if nothing was rounded. Whole
            numbers that `DequantizeLinear` reads are trained as floats of their names, which each
            step quantises by the same scale; scales are trained where `trainable` names them.
        statistics: "batch" lets `BatchNormalization` normalize by the batch, and the running
            statistics follow; "running" lets it do as at inference, and these stay.
        accumulate: so many calls add up their gradients, and the last of them makes a step with the
            mean: one of a batch so many times as large. In the others nothing else changes but
            running statistics. `steps` counts steps.
        average: the decay of a moving average of each parameter, `<parameter>_average`, which
            begins with the parameter after the first step.
        flat: one input `parameters` [P] in place of all parameters, as for `gradients`, and one
            in place of their averages.
        memory: as for `whileback.gradient`.

    Raises:
        ArgumentError: a name or a pattern is unknown, or a loss does not fit its output.
        NoGradientError: operators on the way have no rule; all of them are listed.
        UnsupportedError: a parameter is FLOAT16 or BFLOAT16, and no precision is given, or a
            pattern names whole numbers that something else than `DequantizeLinear` reads.

    >>> import onnx_ir as ir, whileback
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["" : 21]>
    ...     line (float[N,1] x) => (float[N,1] y) <float[1,1] w = {0.0}> { y = MatMul(x, w) }''')
    >>> trained = step(model, "mse", "sgd")
    >>> f, feeds = whileback.compile(trained), {}
    >>> for _ in range(20):
    ...     out = f(feeds, x=[[1.0], [2.0]], label=[[3.0], [6.0]], learning_rate=0.1)
    ...     feeds = {name: out[new] for name, new in whileback.names(trained).items()}
    >>> feeds["w"].round(3).tolist()
    [[3.0]]
    """
    require_types(step, locals(), but=_LOOKED_AT)
    usual, clipping = optimizer_named(optimizer), Clipping(clip_norm, clip_value)
    check_calls(accumulate)
    check_average(average)
    mixed = precision_named(precision)
    work = differentiated(model, loss, trainable, memory, dropout, mixed, quantized, statistics)
    names = [str(value.name) for value in work.parameters]
    updates = Updates(work, rules(names, usual, groups, no_decay), clipping, average)
    made = updates if mixed is None or not mixed.scales else Scaling(work, updates, mixed)
    if accumulate == 1:
        work.next |= made.emit(work.op, work.parameters)
    else:
        work.next |= accumulated(work, accumulate, made.kept, made.emit)
    layout, averages = flatten(work, updates.averages) if flat else ([], updates.averages)
    return work.finish(
        learning_rate=str(updates.rate.name),
        averages={str(w.name): str(value.name) for w, value in averages.items()},
        accumulate=accumulate,
        flat=layout,
    )

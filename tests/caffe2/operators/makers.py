"""Checks makers of gradients: what they emit, against differences in float64.

The net of an operator and of what its maker emits is read, and run in float64; differences of the
operator's own results say what is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whileback.caffe2.operators.registry import Gradients, Slices, gradient_operators
from whileback.caffe2.reading import TensorSpec, read
from whileback.checking.finite_differences import derivative
from whileback.checking.truth import Truth, compile_exactly, widened
from whileback.formats.caffe2.arguments import add_argument
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef
from whileback.graph.names import Names

Arrays = Mapping[str, np.ndarray]


def operator(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], **args: Any
) -> OperatorDef:
    """An operator with arguments."""
    op = OperatorDef(type=op_type, input=inputs, output=outputs)
    for name, value in args.items():
        add_argument(op, name, value)
    return op


def differentiated(op: OperatorDef, seeds: Sequence[str | None]) -> tuple[NetDef, list[Any]]:
    """A net of an operator and its gradient, and the gradient's name for each input."""
    names = Names([*op.input, *op.output, *(seed for seed in seeds if seed)])
    grad = Gradients(names.fresh)
    found = gradient_operators[op.type](grad, op, list(seeds))
    if found is None or isinstance(found, (str, Slices)):
        found = [found]
    return NetDef(name="net", op=[op, *grad.ops]), list(found)


def check_maker(op: OperatorDef, feeds: Arrays, wrt: Sequence[str], of: Sequence[str] = ()) -> None:
    """Fail unless the gradients of `wrt` are right, where all results count or those in `of`."""
    of = of or list(op.output)
    specs = {name: TensorSpec.of(array) for name, array in feeds.items()}
    forward = read(NetDef(name="net", op=[op]), specs, outputs=of, keep_unused_inputs=True)
    truth = Truth(forward.model, [forward.outputs[blob] for blob in of], wrt)
    results, _ = truth.values(feeds)
    rng = np.random.default_rng(5)
    seeds = {
        blob: rng.uniform(0.5, 2, results[forward.outputs[blob]].shape).astype(np.float32)
        for blob in of
    }
    cotangents = {forward.outputs[blob]: seed for blob, seed in seeds.items()}
    found = _gradients(op, feeds, seeds, wrt)
    for name in wrt:
        expected = _differences(truth, feeds, cotangents, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-8, err_msg=f"d {name}")


def _gradients(op: OperatorDef, feeds: Arrays, seeds: Arrays, wrt: Sequence[str]) -> Arrays:
    """Run an operator and its gradient in float64; a blob that is read twice gets both parts."""
    net, found = differentiated(op, [f"{b}_seed" if b in seeds else None for b in op.output])
    given = {**feeds, **{f"{blob}_seed": seed for blob, seed in seeds.items()}}
    pairs = [(name, part) for name, part in zip(op.input, found, strict=False) if name in wrt]
    specs = {name: TensorSpec.of(array) for name, array in given.items()}
    reading = read(net, specs, outputs=list({blob for _, part in pairs for blob in _blobs(part)}))
    model = compile_exactly(reading.model)
    results = model({name: each for name, each in widened(given).items() if name in model.inputs})
    totals = {name: np.zeros(feeds[name].shape) for name in wrt}
    for name, part in pairs:
        dense = _dense(feeds[name], *(results[reading.outputs[blob]] for blob in _blobs(part)))
        assert dense.shape == feeds[name].shape
        totals[name] = totals[name] + dense
    return totals


def _blobs(gradient: str | Slices | None) -> list[str]:
    if isinstance(gradient, Slices):
        return [gradient.indices, gradient.values]
    return [] if gradient is None else [gradient]


def _dense(like: np.ndarray, *parts: np.ndarray) -> np.ndarray:
    """A gradient, or zeros with the values of a sparse one added at its indices."""
    if len(parts) == 1:
        return parts[0]
    found = np.zeros(like.shape)
    if parts:
        np.add.at(found, *parts)
    return found


def _differences(truth: Truth, feeds: Arrays, cotangents: Arrays, name: str) -> np.ndarray:
    """The gradient of Σ cotangent·result, element by element."""
    found = np.zeros(feeds[name].shape)
    for index in np.ndindex(found.shape):
        direction = np.zeros(found.shape)
        direction[index] = 1.0
        along = truth.along(feeds, cotangents, name, direction)
        found[index] = derivative(along, along(0.0)).value
    return found

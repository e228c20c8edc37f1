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
    seeds = [f"{blob}_seed" if blob in of else None for blob in op.output]
    net, found = differentiated(op, seeds)
    wanted = [found[list(op.input).index(name)] for name in wrt]
    specs = {name: TensorSpec.of(array) for name, array in feeds.items()}
    forward = read(NetDef(name="net", op=[op]), specs, outputs=of)
    truth = Truth(forward.model, [forward.outputs[blob] for blob in of], wrt)
    results, _ = truth.values(feeds)
    rng = np.random.default_rng(5)
    cotangents = {name: rng.uniform(0.5, 2, value.shape) for name, value in results.items()}
    given = {f"{blob}_seed": cotangents[forward.outputs[blob]].astype(np.float32) for blob in of}
    cotangents = {forward.outputs[blob]: given[f"{blob}_seed"] for blob in of}
    everything = {**feeds, **given}
    specs = {name: TensorSpec.of(array) for name, array in everything.items()}
    reading = read(net, specs, outputs=[name for each in wanted for name in _blobs(each)])
    model = compile_exactly(reading.model)
    grads = model(
        {name: value for name, value in widened(everything).items() if name in model.inputs}
    )
    for name, blob in zip(wrt, wanted, strict=True):
        parts = [grads[reading.outputs[each]] for each in _blobs(blob)]
        got = parts[0] if isinstance(blob, str) else _dense(feeds[name], *parts)
        expected = _differences(truth, feeds, cotangents, name)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8, err_msg=f"d {name}")
        assert got.shape == feeds[name].shape


def _blobs(gradient: str | Slices | None) -> list[str]:
    if isinstance(gradient, Slices):
        return [gradient.indices, gradient.values]
    return [] if gradient is None else [gradient]


def _dense(like: np.ndarray, *slices: np.ndarray) -> np.ndarray:
    """Zeros, and where there is a sparse gradient its values added at its indices."""
    found = np.zeros(like.shape)
    if slices:
        np.add.at(found, *slices)
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

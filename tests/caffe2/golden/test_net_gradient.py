"""Gradients as nets: made of every recorded forward net, read, run, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from tests.caffe2.golden.cases import Arrays, Case, cases, difference

from whileback import compile
from whileback.caffe2.gradients import GradientMap, add_gradient_operators
from whileback.caffe2.gradients.bindings import mentions
from whileback.caffe2.operators.registry import Slices
from whileback.caffe2.reading import TensorSpec, read
from whileback.formats.caffe2.caffe2_pb2 import NetDef

CONTROL = cases("control-gradient")
PLAIN = [c for c in cases("straight", "straight-zoo", "operators") if c.meta.get("gradient_map")]

# Blobs whose recorded gradient is not that of the net.
WRONG = {
    "op_elementwise_many": (
        {"i35", "i49"},
        "Max and Min of a tensor and itself, whose gradient the original counts twice",
    ),
    "op_elementwise_powers": ({"i3"}, "X^0 depends on X nowhere; zeros there, no gradient here"),
}


def differentiated(case: Case, **options: object) -> tuple[NetDef, GradientMap]:
    ys = case.meta["seeds"] or case.meta["losses"]
    return add_gradient_operators(case.forward_net(), ys, **options)


def blobs(gradient: str | Slices | Mapping[str, str]) -> list[str]:
    """The blobs of a gradient, in the map made here or in the recorded one."""
    if isinstance(gradient, str):
        return [gradient]
    if isinstance(gradient, Slices):
        return [gradient.indices, gradient.values]
    return [gradient["indices"], gradient["values"]]


def run(net: NetDef, feeds: Arrays, wanted: Iterable[str]) -> Arrays:
    """Read and run a net; blobs that are fed and never written are what was fed."""
    outputs = sorted(set(wanted) - set(feeds))
    reading = read(net, {n: TensorSpec.of(a) for n, a in feeds.items()}, outputs=outputs)
    model = compile(reading.model)
    results = model({name: feeds[name] for name in model.inputs})
    return feeds | {name: results[reading.outputs[name]] for name in outputs}


def assert_right(case: Case, net: NetDef, gradients: GradientMap) -> None:
    """Compare with central differences; a blob that is not in the map has no gradient."""
    right = {name.removeprefix("d/"): value for name, value in case.arrays("right.npz").items()}
    found = run(net, case.arrays("feeds.npz"), [gradients[b] for b in right if b in gradients])
    for blob, expected in right.items():
        got = found[gradients[blob]] if blob in gradients else np.zeros_like(expected)
        shaped = np.reshape(got, np.shape(expected))
        np.testing.assert_allclose(shaped, expected, rtol=1e-4, atol=1e-5, err_msg=blob)


def differences(case: Case, gradients: GradientMap, found: Arrays) -> dict[str, str]:
    """How gradients differ from the recorded ones, by blob."""
    feeds = case.arrays("feeds.npz")
    known = feeds | case.arrays("fetches.npz") | {n: feeds[n] for n in case.meta["seeds"].values()}
    said = {}
    for blob, recorded in case.meta["gradient_map"].items():
        if blob not in WRONG.get(case.name, (set(), ""))[0]:
            for got, name in zip(blobs(gradients[blob]), blobs(recorded), strict=True):
                if name not in case.skipped:
                    said[blob] = difference(found.get(got), known[name])
    return {blob: text for blob, text in said.items() if text is not None}


@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.name)
def test_gradients_through_loops_and_branches_are_right(case: Case) -> None:
    assert_right(case, *differentiated(case, dense=True))


@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.name)
def test_the_gradients_that_are_asked_for_are_right(case: Case) -> None:
    # One case asks for a blob that its net does not name.
    wrt = [blob for blob in case.meta["wrt"] if blob in mentions(case.forward_net())]
    net, gradients = differentiated(case, wrt=wrt, dense=True)
    assert list(gradients) == wrt
    assert_right(case, net, gradients)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_gradients_of_plain_nets_are_as_recorded(case: Case) -> None:
    net, gradients = differentiated(case)
    wanted = [name for each in gradients.values() for name in blobs(each)]
    found = run(net, case.arrays("feeds.npz"), wanted)
    assert differences(case, gradients, found) == {}

"""Recorded forward nets, read and then differentiated as ONNX models."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.golden.cases import Arrays, Case, cases, difference

from whileback import compile, names, vjp
from whileback.caffe2.reading import TensorSpec, read

# Some gradients that were recorded are zero.
pytestmark = pytest.mark.filterwarnings("ignore:No value in of=")

CONTROL = cases("control-gradient")
PLAIN = [c for c in cases("straight", "straight-zoo", "operators") if c.meta.get("gradient_map")]

# Blobs whose gradient by the model is another one than the recorded one, and why.
TIED = "where several elements are the largest, another one gets the gradient, or each gets it all"
OTHER = {
    "op_elementwise_many": ({"i35", "i49"}, TIED),
    "op_lengths_max_ties": ({"a1", "a4", "a7"}, TIED),
    "op_pool_max_ties": ({f"x{number}" for number in range(1, 10)}, TIED),
    "op_reductions_axes": ({"x115", "x117"}, TIED),
    "op_reductions_ends": ({"x70", "x72", "x144", "x146"}, TIED),
    "op_reductions_rows": ({"x3"}, TIED),
}


def ones_like(blob: str, case: Case) -> np.ndarray:
    return np.ones_like((case.arrays("feeds.npz") | case.arrays("fetches.npz"))[blob])


def gradients(case: Case, wrt: list[str]) -> Arrays:
    """The gradients of a case's net, by blob, with the recorded seeds; ones for a loss."""
    feeds, seeds = case.arrays("feeds.npz"), case.meta["seeds"]
    of = list(seeds) or case.meta["losses"]
    specs = {name: TensorSpec.of(array) for name, array in feeds.items()}
    reading = read(case.forward_net(), specs, outputs=of, keep_unused_inputs=True)
    model = vjp(reading.model, [reading.outputs[blob] for blob in of], wrt)
    known = names(model)
    given = {blob: feeds[seeds[blob]] if seeds else ones_like(blob, case) for blob in of}
    cotangents = {known[reading.outputs[blob]]: array for blob, array in given.items()}
    compiled = compile(model)
    results = compiled({n: (feeds | cotangents)[n] for n in compiled.inputs})
    return {blob: results[known[blob]] for blob in wrt}


@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.name)
def test_gradients_through_loops_and_branches_are_right(case: Case) -> None:
    right = {name.removeprefix("d/"): value for name, value in case.arrays("right.npz").items()}
    wrt = [blob for blob in right if blob in case.arrays("feeds.npz")]
    found = gradients(case, wrt)
    assert wrt == list(right)
    for blob in wrt:
        shaped = np.reshape(found[blob], np.shape(right[blob]))
        np.testing.assert_allclose(shaped, right[blob], rtol=1e-4, atol=1e-5, err_msg=blob)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_gradients_of_plain_nets_are_as_recorded(case: Case) -> None:
    recorded = {**case.arrays("feeds.npz"), **case.arrays("fetches.npz")}
    expected = {
        blob: recorded[gradient]
        for blob, gradient in case.meta["gradient_map"].items()
        if blob in case.arrays("feeds.npz")
        and isinstance(gradient, str)
        and gradient in recorded.keys() - case.skipped
    }
    if not expected:
        pytest.skip("all its gradients are sparse, random, or of blobs that it writes")
    found = gradients(case, list(expected))
    said = {
        blob: difference(found[blob].reshape(array.shape), array)
        for blob, array in expected.items()
        if blob not in OTHER.get(case.name, (set(), ""))[0]
    }
    assert {blob: text for blob, text in said.items() if text is not None} == {}

"""Training nets: run as often as the real Caffe2 did, every blob goes the way it went there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.golden.cases import Case, cases, difference

from whileback.caffe2.gradients import add_gradient_operators
from whileback.caffe2.workspace import Workspace
from whileback.formats.caffe2.caffe2_pb2 import NetDef


def prepared(case: Case) -> Workspace:
    """A workspace after the net that initialises, with the recorded blobs in it."""
    ws = Workspace()
    ws.run(case.net("init_net.pb"))
    feed(ws, case, "feeds.npz")
    return ws


def feed(ws: Workspace, case: Case, file: str) -> None:
    for name, array in case.arrays(file).items():
        ws.feed(name, array)


def differences(ws: Workspace, expected: dict[str, np.ndarray]) -> dict[str, str | None]:
    got = {name: ws.fetch(name) if name in ws else None for name in expected}
    found = {name: difference(got[name], array) for name, array in expected.items()}
    return {name: said for name, said in found.items() if said is not None}


TRAINING = [case for case in cases("training") if not case.meta.get("nondeterministic_blobs")]
DROPOUT = [case for case in cases("training") if case not in TRAINING]
DIFFERENTIABLE = [case for case in TRAINING if case.meta.get("gradient_map")]


@pytest.mark.parametrize("case", TRAINING, ids=lambda case: case.name)
def test_a_training_net_goes_the_recorded_way(case: Case) -> None:
    ws, net, trace = prepared(case), case.net(), case.arrays("trace.npz")
    for run in range(case.meta["runs"]):
        feed(ws, case, f"feeds_run{run + 1}.npz")
        ws.run(net)
        expected = {name: values[run] for name, values in trace.items()}
        assert differences(ws, expected) == {}, f"run {run}"
    assert differences(ws, case.arrays("fetches.npz")) == {}


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.name)
def test_gradients_made_here_are_the_recorded_ones(case: Case) -> None:
    ws, net, runs = prepared(case), case.net(), case.meta["runs"]
    for run in range(runs):
        feed(ws, case, f"feeds_run{run + 1}.npz")
        if run < runs - 1:
            ws.run(net)
    made, gradients = add_gradient_operators(case.forward_net(), ["loss"])
    ws.run(made)
    updates = net.op[case.meta["n_ops_before_update"] :]
    overwritten = {name for op in updates for name in op.output}
    recorded, dense = case.arrays("fetches.npz"), case.meta["gradient_map"].items()
    expected = {
        gradients[blob]: recorded[gradient]
        for blob, gradient in dense
        if isinstance(gradient, str) and gradient in recorded and gradient not in overwritten
    }
    assert len(expected) >= 5
    assert differences(ws, expected) == {}


@pytest.mark.parametrize("case", DROPOUT, ids=lambda case: case.name)
def test_dropout_trains_with_the_mask_it_has_drawn(case: Case) -> None:
    """With the recorded mask, all that comes after it is as recorded."""
    ws, net, recorded = prepared(case), case.net(), case.arrays("fetches.npz")
    at = next(index for index, op in enumerate(net.op) if op.type == "Dropout")
    ws.run(NetDef(name="before", op=net.op[:at]))
    for blob in net.op[at].output:
        ws.feed(blob, recorded[blob])
    ws.run(NetDef(name="after", op=net.op[at + 1 :]))
    assert differences(ws, recorded) == {}


@pytest.mark.parametrize("case", DROPOUT, ids=lambda case: case.name)
def test_dropout_draws_another_mask_in_each_run(case: Case) -> None:
    ws, net = prepared(case), case.net()
    dropout = next(op for op in net.op if op.type == "Dropout")
    (ratio,) = [arg.f for arg in dropout.arg if arg.name == "ratio"]
    masks = []
    for _ in range(40):
        ws.run(net)
        mask = ws.fetch(dropout.output[1])
        kept = ws.fetch(dropout.input[0]) * mask / (1 - ratio)
        np.testing.assert_allclose(ws.fetch(dropout.output[0]), kept, rtol=1e-6)
        masks.append(mask)
    rate = np.mean(masks)
    assert abs(rate - (1 - ratio)) < 4 * np.sqrt(ratio * (1 - ratio) / np.size(masks))
    assert any((mask != masks[0]).any() for mask in masks)


RERUN = [case for case in cases() if (case.folder / "fetches_run1.npz").exists()]


@pytest.mark.parametrize("case", RERUN, ids=lambda case: case.name)
def test_a_net_that_runs_again_goes_on_from_its_blobs(case: Case) -> None:
    ws, net = Workspace(), case.net()
    feed(ws, case, "feeds.npz")
    for run in range(1, case.meta["runs"] + 1):
        feed(ws, case, f"feeds_run{run}.npz")
        ws.run(net)
        assert differences(ws, case.arrays(f"fetches_run{run}.npz")) == {}, f"run {run}"

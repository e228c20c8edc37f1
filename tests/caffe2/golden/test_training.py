"""Training nets: run as often as the real Caffe2 did, every blob goes the way it went there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.caffe2.golden.cases import Case, cases, difference

from whileback.caffe2.workspace import Workspace


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


@pytest.mark.parametrize("case", TRAINING, ids=lambda case: case.name)
def test_a_training_net_goes_the_recorded_way(case: Case) -> None:
    ws, net, trace = prepared(case), case.net(), case.arrays("trace.npz")
    for run in range(case.meta["runs"]):
        feed(ws, case, f"feeds_run{run + 1}.npz")
        ws.run(net)
        expected = {name: values[run] for name, values in trace.items()}
        assert differences(ws, expected) == {}, f"run {run}"
    assert differences(ws, case.arrays("fetches.npz")) == {}

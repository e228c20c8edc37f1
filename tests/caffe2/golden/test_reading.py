"""Every recorded net, read and run: each blob holds what the real Caffe2 left in it."""

import pytest
from tests.caffe2.golden.cases import Case, cases, run_once

GROUPS = ("control-forward", "control-gradient", "operators", "straight", "straight-zoo")
# Where a loop makes no trip, the real Caffe2 leaves INT32; in a model a value has one type.
STACKED = "`ta`, a stack of no rows, is FLOAT[0] as in every other run, not INT32[0]"
OTHER_TYPE = {"ctl_onnxwhile_M0_T": STACKED, "ctl_onnxwhile_M5_F": STACKED}


@pytest.mark.parametrize("case", cases(*GROUPS), ids=lambda case: case.name)
def test_blobs_hold_what_was_recorded(case: Case) -> None:
    found = run_once(case)
    if case.name in OTHER_TYPE:
        assert found.pop("ta") == "is float32(0,), not int32(0,)"
    assert found == {}

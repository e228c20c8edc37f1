"""The same gradient nets on the real Caffe2, if it is there: see tests/caffe2/README.md."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.caffe2.golden.cases import Arrays, Case
from tests.caffe2.golden.test_net_gradient import CONTROL, PLAIN, differences, differentiated

from whileback.caffe2.gradients import GradientMap

PYTHON = os.environ.get("WHILEBACK_CAFFE2_PYTHON")

pytestmark = [
    pytest.mark.caffe2_runtime,
    pytest.mark.skipif(
        PYTHON is None, reason="WHILEBACK_CAFFE2_PYTHON names no Python that has the real Caffe2"
    ),
]

Ran = tuple[Path, dict[str, GradientMap]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The folder in which all nets ran, and their gradients by case."""
    folder, gradients = tmp_path_factory.mktemp("nets"), {}
    for case in (*CONTROL, *PLAIN):
        net, gradients[case.name] = differentiated(case, dense=case in CONTROL)
        (folder / f"{case.name}.pb").write_bytes(net.SerializeToString())
        shutil.copy(case.folder / "feeds.npz", folder / f"{case.name}.npz")
    script = Path(__file__).with_name("real_caffe2.py")
    subprocess.run([str(PYTHON), str(script), str(folder)], check=True, stderr=subprocess.DEVNULL)
    return folder, gradients


def fetched(case: Case, run: int, folder: Path) -> Arrays:
    error = folder / f"{case.name}.txt"
    assert not error.exists(), error.read_text()
    return dict(np.load(folder / f"{case.name}.{run}.npz", allow_pickle=True))


@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.name)
def test_the_real_caffe2_computes_the_right_gradients(case: Case, run: int, ran: Ran) -> None:
    folder, gradients = ran
    found = fetched(case, run, folder)
    for name, expected in case.arrays("right.npz").items():
        gradient = gradients[case.name].get(name.removeprefix("d/"))
        got = np.zeros_like(expected) if gradient is None else found[gradient]
        shaped = np.reshape(got, np.shape(expected))
        np.testing.assert_allclose(shaped, expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_the_real_caffe2_runs_the_gradients_of_plain_nets(case: Case, ran: Ran) -> None:
    """Once: its means over segments that are not sorted count on in a second run."""
    folder, gradients = ran
    found = case.arrays("feeds.npz") | fetched(case, 1, folder)
    assert differences(case, gradients[case.name], found) == {}

"""The same gradient nets on the real Caffe2, if it is there: see tests/caffe2/README.md."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.caffe2.golden.cases import Case, cases
from tests.caffe2.golden.test_net_gradient import differentiated

from whileback.caffe2.gradients import GradientMap

PYTHON = os.environ.get("WHILEBACK_CAFFE2_PYTHON")
CONTROL = cases("control-gradient")

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
    for case in CONTROL:
        net, gradients[case.name] = differentiated(case, dense=True)
        (folder / f"{case.name}.pb").write_bytes(net.SerializeToString())
        np.savez(folder / f"{case.name}.npz", **case.arrays("feeds.npz"))
    script = Path(__file__).with_name("real_caffe2.py")
    subprocess.run([str(PYTHON), str(script), str(folder)], check=True, stderr=subprocess.DEVNULL)
    return folder, gradients


@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.name)
def test_the_real_caffe2_computes_the_right_gradients(case: Case, run: int, ran: Ran) -> None:
    folder, gradients = ran
    error = folder / f"{case.name}.txt"
    assert not error.exists(), error.read_text()
    found = np.load(folder / f"{case.name}.{run}.npz")
    for name, expected in case.arrays("right.npz").items():
        gradient = gradients[case.name].get(name.removeprefix("d/"))
        got = np.zeros_like(expected) if gradient is None else found[gradient]
        shaped = np.reshape(got, np.shape(expected))
        np.testing.assert_allclose(shaped, expected, rtol=1e-4, atol=1e-5, err_msg=name)

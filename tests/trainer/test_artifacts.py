"""What is written for other languages has to be fed what is kept: some feed no defaults."""

from pathlib import Path

import onnxruntime
import pytest
from safetensors.numpy import load_file
from tests.trainer import models

from whileback import training


@pytest.mark.parametrize("flat", [False, True])
def test_what_is_kept_has_no_defaults(flat: bool, tmp_path: Path) -> None:
    step = training.step(models.model(), "cross-entropy", "adam", flat=flat)
    evaluation = training.evaluation(models.model(), "cross-entropy", step)
    before = {*step.graph.initializers}
    training.write_artifacts(step, evaluation, tmp_path / "art")
    kept = {*load_file(tmp_path / "art" / "checkpoint.safetensors")}
    assert kept <= before == {*step.graph.initializers}
    session = onnxruntime.InferenceSession(tmp_path / "art" / "training_step.onnx")
    assert {port.name for port in session.get_inputs()} == {*kept, "x", "label", "learning_rate"}
    assert not session.get_overridable_initializers()
    session = onnxruntime.InferenceSession(tmp_path / "art" / "eval.onnx")
    trained = {"parameters"} if flat else {*"scwb"}
    assert {port.name for port in session.get_inputs()} == {"x", "label", "m", "v"} | trained
    assert not session.get_overridable_initializers()

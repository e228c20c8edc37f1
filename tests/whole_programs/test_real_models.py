"""Models of other people, files as they are shipped: gradients agree with finite differences.

The models come out of packages on PyPI, once, into `.downloads/`. Run-time sizes change from case
to case, and one gradient file serves all of them.
"""

from pathlib import Path

import numpy as np
from examples.pypi import fetch
from tests.whole_programs.real_models import reports

SILERO = ("silero-vad", "6.2.3")
MAGIKA = ("magika", "1.0.3")


def audio(*shape: int) -> np.ndarray:
    """Return noise as loud as a voice: at ten times that, gates saturate and gradients vanish."""
    return (0.05 * np.random.default_rng(shape).normal(size=shape)).astype(np.float32)


def state(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-0.5, 0.5, shape).astype(np.float32)


def silero(name: str) -> Path:
    return fetch(*SILERO) / "silero_vad" / "data" / name


def chunks(rate: int, batch: int, samples: int) -> dict[str, np.ndarray]:
    return {
        "input": audio(batch, samples),
        "state": state(2, batch, 128),
        "sr": np.array(rate, np.int64),
    }


def test_silero_vad(tmp_path: Path) -> None:
    """Branches nested four deep, around an LSTM; two models in one, chosen by the sample rate."""
    cases = [chunks(16_000, 1, 576), chunks(16_000, 3, 512), chunks(8_000, 2, 288)]
    model = silero("silero_vad.onnx")
    for report in reports(model, ["output", "stateN"], ["input", "state"], cases, tmp_path):
        assert [finding.verdict for finding in report.findings] == ["ok", "ok"], str(report)


def test_silero_vad_16k_op15(tmp_path: Path) -> None:
    cases = [chunks(16_000, 1, 576), chunks(16_000, 3, 576)]
    model = silero("silero_vad_16k_op15.onnx")
    for report in reports(model, ["output", "stateN"], ["input", "state"], cases, tmp_path):
        assert [finding.verdict for finding in report.findings] == ["ok", "ok"], str(report)


def test_silero_vad_16k_sequence(tmp_path: Path) -> None:
    """A whole recording at once: as many steps of an LSTM as there are chunks."""
    cases = [
        {"input": audio(steps, 576), "h": state(1, 1, 128), "c": state(1, 1, 128)}
        for steps in (1, 2, 7)
    ]
    model = silero("silero_vad_16k_sequence.onnx")
    of, wrt = ["speech_probs", "hn", "cn"], ["input", "h", "c"]
    for report in reports(model, of, wrt, cases, tmp_path):
        assert [finding.verdict for finding in report.findings] == ["ok"] * 3, str(report)


def test_magika(tmp_path: Path) -> None:
    """The input are bytes, so the gradient is with respect to what they are embedded into."""
    embedding = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/Dense_0/einsum/Einsum:0"
    rng = np.random.default_rng(0)
    cases = [{"bytes": rng.integers(0, 257, (files, 2048)).astype(np.int32)} for files in (1, 2)]
    model = fetch(*MAGIKA) / "magika" / "models" / "standard_v3_3" / "model.onnx"
    for report in reports(model, ["target_label"], [embedding], cases, tmp_path):
        assert [finding.verdict for finding in report.findings] == ["ok"], str(report)

"""Which samples make a voice detector believe that it hears speech?

Takes `silero_vad.onnx` as it is out of the package silero-vad (MIT licence): branches nested four
deep around convolutions and an LSTM. Differentiates the probability of speech with respect to the
audio, checks that against finite differences, and draws it. Run with `make demo`.
"""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
from pypi import fetch

import whileback

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

RATE = 16_000
CHUNK = 512
# The model wants the last samples of the chunk before in front of each chunk.
CONTEXT = 64
ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "demo-output"


def speech(seconds: float = 2.0) -> np.ndarray:
    """Return syllables: harmonics of a gliding pitch, louder near a vowel's three formants."""
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = 125 + 15 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    vowels = np.array([[730, 1090, 2440], [270, 2290, 3010], [570, 840, 2410], [530, 1840, 2480]])
    formants = vowels[(4 * time).astype(int) % 4]
    wave = np.zeros_like(time)
    for harmonic in range(1, 40):
        distance = (harmonic * pitch[:, None] - formants) / 120
        loudness = np.exp(-(distance**2)) @ [1, 0.5, 0.25] + 0.02
        wave += loudness / np.sqrt(harmonic) * np.sin(harmonic * phase)
    envelope = np.clip(2 * np.sin(4 * np.pi * time) ** 2, 0, 1) * (time % 1 < 0.75)
    noise = np.random.default_rng(0).normal(size=time.shape)
    return (0.25 * wave / np.abs(wave).max() * envelope + 0.005 * noise).astype(np.float32)


def run_whileback(*words: str) -> None:
    """Print a command and run it, in a process of its own."""
    print(f"\n$ whileback {' '.join(words)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "whileback", *words], cwd=ROOT)
    if done.returncode:
        raise SystemExit(done.returncode)


def along(gradient_file: Path, audio: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities, the gradient of each with respect to its chunk, and inputs.

    The inputs are those of the chunk whose probability depends most on its audio: [576] samples,
    and [2, 1, 128] numbers that the model remembers of the chunks before.
    """
    gradient = whileback.compile(gradient_file)
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    probabilities, gradients, inputs = [], [], []
    for chunk in audio.reshape(-1, CHUNK):
        arguments = {"input": np.concatenate([context, chunk])[None], "state": state, "sr": RATE}
        results = gradient(arguments)
        probabilities.append(results["output"].item())
        gradients.append(results["input_grad"][0, CONTEXT:])
        inputs.append(arguments)
        context, state = chunk[-CONTEXT:], results["stateN"]
    steepest = int(np.argmax([np.linalg.norm(g) for g in gradients]))
    return np.array(probabilities), np.concatenate(gradients), inputs[steepest]


def draw(audio: np.ndarray, probabilities: np.ndarray, gradient: np.ndarray, file: Path) -> None:
    """Draw the waveform coloured by the gradient's size, and the probability below it."""
    time = np.arange(len(audio)) / RATE
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(12, 6), sharex=True, height_ratios=[3, 1], layout="constrained"
    )
    points = np.stack([time, audio], axis=1)
    lines = LineCollection(np.stack([points[:-1], points[1:]], axis=1), cmap="plasma", linewidth=1)
    lines.set_array(np.log10(np.abs(gradient[:-1]) + 1e-6))
    top.add_collection(lines)
    top.set(xlim=(0, time[-1]), ylim=(-0.3, 0.3), ylabel="audio")
    top.set_title("silero_vad.onnx: how strongly each sample moves the probability of speech")
    figure.colorbar(lines, ax=top, label="log₁₀ |∂ probability / ∂ sample|")
    bottom.step(np.arange(len(probabilities)) * CHUNK / RATE, probabilities, where="post")
    bottom.set(ylim=(0, 1.05), xlabel="seconds", ylabel="P(speech)")
    figure.savefig(file, dpi=120)


def main() -> None:
    """Differentiate, check, draw, and say what came out."""
    package = fetch("silero-vad", "6.2.3")
    model = str((package / "silero_vad" / "data" / "silero_vad.onnx").relative_to(ROOT))
    OUTPUT.mkdir(exist_ok=True)
    values = ("--of", "output", "--wrt", "input")
    output = ("-o", "demo-output/silero_vad.grad.onnx", "--force")
    run_whileback("gradient", model, *values, "--reduce", "sum", *output)
    audio = speech()
    audio = audio[: len(audio) // CHUNK * CHUNK]
    probabilities, gradient, steepest = along(OUTPUT / "silero_vad.grad.onnx", audio)
    print(f"\n{len(audio) / RATE:.1f} s of artificial speech in {len(probabilities)} chunks:")
    print(f"the probability of speech runs from {probabilities.min():.2f} to", end=" ")
    print(f"{probabilities.max():.2f}; its gradient has norms of up to", end=" ")
    print(f"{np.linalg.norm(gradient.reshape(-1, CHUNK), axis=1).max():.2f} per chunk.")

    print("The chunk with the largest one, against finite differences:")
    np.save(OUTPUT / "input.npy", steepest["input"])
    np.save(OUTPUT / "state.npy", steepest["state"])
    inputs = (f"sr={RATE}", "input=demo-output/input.npy", "state=demo-output/state.npy")
    run_whileback("check", model, *values, *inputs)
    picture = OUTPUT / "silero_vad.png"
    draw(audio, probabilities, gradient, picture)
    print(f"\nThe audio, coloured by its gradient: {picture.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

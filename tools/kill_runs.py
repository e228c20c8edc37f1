"""Kills runs of training at random moments, and compares what they come to with one left alone.

`python tools/kill_runs.py --kills 50` says how many kills there were, and where they hit; it fails
if a checkpoint or the log of any run differs in a single byte.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir

from whileback import training

EPOCHS, ROWS, BATCH = 6, 60, 8
FILES = ("last.safetensors", "best.safetensors", "log.jsonl")
BEGUN = "begun"


def model() -> ir.Model:
    """Return a small classifier whose dropout draws, and whose statistics are kept."""
    made = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 21]>
        classifier (float[N,4] x) => (float[N,3] z)
        <float[4] s = {1,1,1,1}, float[4] c = {0,0,0,0}, float[4] m = {0,0,0,0},
         float[4] v = {1,1,1,1}, float[4,3] w = {1,0,0, 0,1,0, 0,0,1, 0,0,0}, float[3] b = {0,0,0},
         float r = {0.1}, bool t = {1}> {
            n = BatchNormalization(x, s, c, m, v)
            d = Dropout(n, r, t)
            z = Gemm(d, w, b)
        }""")
    return made


def data(seed: int) -> training.Arrays:
    """Return examples whose class is the largest of the first three numbers."""
    x = np.random.default_rng(seed).normal(2, 3, (ROWS, 4)).astype("f")
    return training.Arrays({"x": x, "label": x[:, :3].argmax(1)})


def train(folder: Path) -> None:
    """Go on with a run, or begin it."""
    one = model()
    step = training.step(one, "cross-entropy", "adamw")
    evaluation = training.evaluation(one, "cross-entropy", step)
    trainer = training.Trainer(step, evaluation=evaluation, threads=1)
    run = training.Run(
        trainer, data(0), folder, epochs=EPOCHS, learning_rate=0.01, batch_size=BATCH,
        evaluation=data(1), log_every=1, save_every=3, tensorboard=False,
    )  # fmt: skip
    print(BEGUN, flush=True)
    run.fit(resume=True)


def killed(folder: Path, seconds: float) -> bool:
    """Train in a process of its own that is killed so long after it has begun; tell if it was."""
    command = [sys.executable, __file__, "--train", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"training failed with {process.returncode}")
    return process.returncode != 0


def trial(folder: Path, alone: Path, kills: int, longest: float, seed: int) -> int:
    """Kill a run up to so often, let it end, and compare it; return how often it was killed."""
    draw, count = random.Random(seed), 0
    while count < kills and killed(folder, draw.uniform(0, longest)):
        count += 1
        log = folder / "log.jsonl"
        print(f"killed at line {len(log.read_bytes().splitlines()) if log.exists() else 0}")
    train(folder)
    for name in FILES:
        if (folder / name).read_bytes() != (alone / name).read_bytes():
            raise SystemExit(f"{name} differs after {count} kills, seed {seed}")
    left = {file.name for file in folder.iterdir()} - set(FILES)
    if left:
        raise SystemExit(f"{left} is left over after {count} kills, seed {seed}")
    return count


def main() -> None:
    """Kill as often as was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=0.2, help="seconds until a kill")
    parser.add_argument("--train", type=Path, help="train in this folder, and nothing else")
    given = parser.parse_args()
    if given.train is not None:
        train(given.train)
        return
    with tempfile.TemporaryDirectory() as folder:
        alone, count, seed = Path(folder, "alone"), 0, 0
        train(alone)
        while count < given.kills:
            place = Path(folder, str(seed))
            count += trial(place, alone, min(10, given.kills - count), given.longest, seed)
            seed += 1
        print(f"{count} kills in {seed} runs: all to the last byte like the one left alone")


if __name__ == "__main__":
    main()

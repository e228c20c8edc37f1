"""Teaches magika, which tells types of files apart, one that it does not know.

    python examples/filetypes.py

Takes the model of the package magika (Apache 2.0) as it is. Models of ONNX as text look like
nothing that it has seen; here they become a kind of `textproto`, and what it knows it is not to
forget. The files are made up, the last layer is trained, and all is done as a user would: an .npz
file, `whileback train`, `whileback export`. The result has the inputs and outputs of the original.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from pypi import fetch

import whileback

SIZE, PADDING = 1024, 256
LAST_LAYER = ("*Dense_1/Reshape:0", "*Const_24:0")
KINDS = ("textproto", "python", "json", "csv")


def text(kind: str, random: np.random.Generator) -> str:
    """Return the content of a file of a kind, made up."""
    names = ["".join(random.choice(list("abcdefghimnoprstuvwxy"), 6)) for _ in range(40)]
    numbers = random.normal(size=40).round(4).tolist()
    count = int(random.integers(10, 40))
    if kind == "json":
        return json.dumps(dict(zip(names[:count], numbers[:count], strict=True)), indent=2)
    if kind == "csv":
        rows = [",".join(names[:5])]
        rows += [",".join(map(str, random.permutation(numbers)[:5])) for _ in range(count)]
        return "\n".join(rows)
    pairs = list(zip(names, names[1:], numbers, strict=False))[:count]
    if kind == "python":
        lines = [
            f"def {a}(x):\n    {b} = x * {c}\n    return {b} + len(str(x))\n" for a, b, c in pairs
        ]
        return "import os\nimport sys\n\n\n" + "\n\n".join(lines)
    lines = [f"    {b} = {random.choice(['Add', 'Mul', 'MatMul'])}({a}, w)" for a, b, _ in pairs]
    return (
        '<ir_version: 10, opset_import: ["" : 21]>\n'
        f"{names[-1]} (float[N,4] {names[0]}) => (float[N,4] {pairs[-1][1]})\n"
        f"    <float[4,4] w = {{{', '.join(map(str, numbers[:16]))}}}> {{\n"
        + "\n".join(lines)
        + "\n}"
    )


def features(content: str) -> np.ndarray:
    """Return what the model reads of a file, INT32[2048]: its first and its last bytes."""
    data = np.frombuffer(content.strip().encode(), np.uint8)
    row = np.full(2 * SIZE, PADDING, np.int32)
    first, last = data[:SIZE], data[-SIZE:]
    row[: len(first)], row[2 * SIZE - len(last) :] = first, last
    return row


def write(file: Path, each: int, labels: list[str], seed: int) -> dict[str, np.ndarray]:
    """Write so many files of every kind, and return them."""
    random = np.random.default_rng(seed)
    rows = [(features(text(kind, random)), labels.index(kind)) for kind in KINDS * each]
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    np.savez(file, bytes=x, kind=y)
    return {"bytes": x, "kind": y}


def judged(model: Path, files: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the loss of a model, and of how many files of a kind it is right, in per cent."""
    scores = whileback.compile(model)(bytes=files["bytes"])["target_label"]
    loss = -np.log(scores[np.arange(len(scores)), files["kind"]]).mean()
    hits = (scores.argmax(1) == files["kind"]).reshape(-1, len(KINDS))
    shares = (100 * hits.mean(0)).tolist()
    return {"loss": round(float(loss), 5), **dict(zip(KINDS, shares, strict=True))}


def run_whileback(*words: str) -> None:
    """Print a command and run it, in a process of its own."""
    print(f"\n$ whileback {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "whileback", *words], check=True)


def main(folder: Path, each: int = 24, epochs: int = 3) -> tuple[dict[str, float], ...]:
    """Train in a folder on so many files of every kind; return what was right before and after."""
    home = fetch("magika", "1.0.3") / "magika" / "models" / "standard_v3_3"
    labels = json.loads((home / "config.min.json").read_text())["target_labels_space"]
    original, tuned = home / "model.onnx", folder / "tuned.onnx"
    write(folder / "train.npz", each, labels, seed=0)
    test = write(folder / "test.npz", each // 2, labels, seed=1)
    before = judged(original, test)
    print("before:", before)
    data = ("--data", f"{folder}/train.npz", "--eval", f"{folder}/test.npz", "--label", "kind")
    learn = ("--loss", "cross-entropy", "--optimizer", "adamw", "--lr", "3e-3")
    size = ("--epochs", str(epochs), "--batch", "16", "--trainable", *LAST_LAYER)
    run_whileback("train", str(original), *data, *learn, *size, "--out", f"{folder}/run")
    run_whileback("export", f"{folder}/run", "-o", str(tuned))
    after = judged(tuned, test)
    print("after:", after)
    old, new = (onnx.load(file) for file in (original, tuned))
    same = (old.graph.input, old.graph.output) == (new.graph.input, new.graph.output)
    print(f"The interface is {'that of the original' if same else 'ANOTHER ONE'}.")
    return before, after


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))

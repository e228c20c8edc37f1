"""What loops cost whose values grow, shrink or are written by rows, at T = 1 000 and 4 000.

Prints, for each kind of loop in tests/gradient/memory/test_every_kind.py, the CPU milliseconds of
the model and of the model with its gradient at the larger T, how many times as long that takes as
at the smaller, and by how much it raises the peak of memory, in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir

import whileback

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.gradient.memory.test_every_kind import KINDS
from tests.judge import parse


def measure(name: str, trips: int) -> None:
    """Print the seconds of both models, and the KiB that the second one needs."""
    kind = KINDS[name]
    inputs, model = kind.inputs(trips), parse(kind.text())
    for graph in model.graphs():
        graph.sort()
    outputs, forward, _ = run(model, inputs)
    inputs |= {f"{key}_grad": np.ones_like(value) for key, value in outputs.items()}
    gradient = whileback.vjp(parse(kind.text()), ["h", "v"], ["h0", "a", "x"])
    _, both, memory = run(gradient, inputs)
    print(json.dumps([forward, both, memory]))


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float, int]:
    """Return the outputs, the seconds of the faster of two runs, and the KiB that they need."""
    compiled, seconds, before = whileback.compile(model, threads=1), [], peak()
    for _ in range(2):
        start = time.process_time()
        outputs = compiled(inputs)
        seconds.append(time.process_time() - start)
    return outputs, min(seconds), peak() - before


def peak() -> int:
    """Return the peak of this process's memory, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def row(name: str, trips: list[int]) -> str:
    """Return one row of the table."""
    found = []
    for each in trips:
        command = [sys.executable, __file__, "--one", name, "--trips", str(each)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(printed))
    (forward, both, _), (last_forward, last_both, memory) = found[0], found[-1]
    return (
        f"{name:40} {last_forward * 1e3:8.1f} {last_both * 1e3:8.1f}"
        f" {last_forward / forward:8.1f} {last_both / both:8.1f} {memory / 1024:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trips", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--one", help="measure one loop, in this process")
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.trips[0])
        return
    print(f"{'':40} {'model':>8} {'gradient':>8} {'grows':>8} {'grows':>8} {'memory':>8}")
    print(f"{'':40} {'ms':>8} {'ms':>8} {'times':>8} {'times':>8} {'MB':>8}")
    for name in KINDS:
        print(row(name, options.trips), flush=True)


if __name__ == "__main__":
    main()

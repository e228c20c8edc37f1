"""Microseconds of a step of training: whileback beside onnxruntime-training and PyTorch.

WHILEBACK_ORT_TRAINING_PYTHON=…/bin/python python benchmarks/training.py     two minutes
… python benchmarks/training.py --quick                                      one thread only

The other Python has onnxruntime-training 1.19.2, which wants Python 3.11, onnx 1.16.2 and NumPy
below 2, and PyTorch, which exports the models. Each system runs in a process of its own; they take
turns, and the ratios are medians over the rounds. Batches have 32 examples; the loss is
cross-entropy, the optimizer AdamW. A system whose loss after some steps is another is not timed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODELS = ("MLP", "CNN", "LSTM", "transformer block", "RNN as a Loop")
SYSTEMS = ("whileback", "onnxruntime-training", "PyTorch", "whileback on XLA")
KINDS = ("gradients", "step")
ROUNDS, SECONDS, FIRST = 7, 0.15, 20
TOLERANCE = 1e-2

Times = dict[str, list[float]]


class Worker:
    """A process that times one system."""

    def __init__(self, system: str, python: str, folder: Path, threads: int) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        if threads == 1:
            environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        script = str(HERE / "training_worker.py")
        self.process = subprocess.Popen(
            [python, script, system, str(folder), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def time(self, count: int, kind: str, name: str) -> tuple[float, float] | str:
        """Return the median of the seconds of some calls and the last loss, or what went wrong."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{count} {kind} {name}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '"the process ended"')


def measure(workers: dict[str, Worker], name: str, kind: str) -> Times:
    """Return the seconds of each system in each round, for those that agree."""
    first = {system: worker.time(FIRST, kind, name) for system, worker in workers.items()}
    counts: dict[str, int] = {}
    expected = first["whileback"]
    for system, result in first.items():
        if isinstance(result, str) or isinstance(expected, str):
            print(f"{name}, {system}: {str(result)[:150]}", file=sys.stderr)
        elif abs(result[1] - expected[1]) > TOLERANCE * abs(expected[1]):
            print(f"{name}, {system}: loss {result[1]}, not {expected[1]}", file=sys.stderr)
        else:
            counts[system] = max(3, int(SECONDS / result[0]))
    times: Times = {system: [] for system in counts}
    for _ in range(ROUNDS):
        for system, count in counts.items():
            times[system].append(workers[system].time(count, kind, name)[0])
    return times


def row(name: str, kind: str, times: Times) -> str:
    cells = [name, kind]
    for system in SYSTEMS:
        if system not in times:
            cells.append("")
            continue
        ratios = [b / a for a, b in zip(times["whileback"], times[system], strict=True)]
        of_ours = "" if system == "whileback" else f" ({1 / statistics.median(ratios):.2f})"
        cells.append(f"{1e6 * statistics.median(times[system]):.0f}{of_ours}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one thread only")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    given = parser.parse_args()
    other = os.environ.get("WHILEBACK_ORT_TRAINING_PYTHON")
    if other is None:
        sys.exit(
            "Set WHILEBACK_ORT_TRAINING_PYTHON to a Python with onnxruntime-training and torch."
        )
    pythons = dict.fromkeys(SYSTEMS, sys.executable)
    pythons |= dict.fromkeys(("onnxruntime-training", "PyTorch"), other)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write = (
            "import pathlib, sys, training_models as m\n"
            "for name in sys.argv[2:]: m.export(name, pathlib.Path(sys.argv[1]))"
        )
        subprocess.run(
            [other, "-W", "ignore", "-c", write, made, *given.models], check=True, cwd=HERE
        )
        for threads in (1,) if given.quick else (1, 2):
            print(f"\n{threads} thread(s); µs, and in brackets whileback's time over theirs\n")
            print(f"| model | what | {' | '.join(SYSTEMS)} |\n|{' --- |' * (len(SYSTEMS) + 2)}")
            workers = {
                system: Worker(system, python, folder, threads)
                for system, python in pythons.items()
            }
            for name in given.models:
                for kind in KINDS:
                    print(row(name, kind, measure(workers, name, kind)), flush=True)
            for worker in workers.values():
                worker.process.kill()


if __name__ == "__main__":
    main()

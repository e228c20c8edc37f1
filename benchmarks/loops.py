"""Microseconds and bytes per trip of the gradient of y <- tanh(y·w), on ONNX Runtime.

python benchmarks/loops.py            every size, a few minutes
python benchmarks/loops.py --quick    T = 100 and 1 000 only, seconds

Compares the graph that whileback generates, graphs written by hand (`handwritten.py`) and the
package onnx-ad. Rounds are interleaved (every graph once, then again), so that a slow moment of the
machine hits all of them, and medians are printed. A graph with wrong values is not timed.
"""

import argparse
import gc
import importlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import handwritten
import numpy as np
import onnx
import onnxruntime as ort

import whileback

ROWS = (4, 64, 256)
TRIPS = (100, 1_000, 10_000, 100_000)
CHECKED = (0, 1, 100, 1_000)
# The error of float32 grows with the trips: after 1 000 the graphs are 5e-5 off, measured.
TOLERANCE = 3e-4

WHILEBACK, ONNX_AD, TAPE = "whileback", "onnx-ad", "forward, one tape"

Run = Callable[[int], list[np.ndarray]]
Times = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A model to run, its results in the order (loss, w_grad, y0_grad), and its extra inputs."""

    model: onnx.ModelProto
    results: tuple[str, ...] = ("loss", "w_grad", "y0_grad")
    seeds: tuple[str, ...] = ()


def whileback_case(n: int) -> Case:
    model = whileback.gradient(handwritten.forward_model(n), of="loss", wrt=["w", "y0"])
    return Case(model)


def onnx_ad_case(n: int) -> Case:
    onnx_ad = importlib.import_module("onnx_ad")
    model = onnx_ad.reverse(handwritten.forward_model(n), layout="onnx")
    return Case(model, ("loss", "adj_w", "adj_y0"), ("adj_loss",))


def case(name: str, n: int) -> Case:
    """The case of that name: a package, a form written by hand, or the forward tape alone."""
    if name == WHILEBACK:
        return whileback_case(n)
    if name == ONNX_AD:
        return onnx_ad_case(n)
    if name == TAPE:
        return Case(handwritten.taped_model(n), ("loss", "Y"))
    return Case(handwritten.gradient_model(name, n))


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first y and an orthogonal w: neither values nor gradients explode or vanish over T."""
    y0 = np.linspace(0.2, 1, n, dtype=np.float32)[None]
    w, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))
    return y0, w.astype(np.float32)


def runner(case: Case, n: int, threads: int) -> Run:
    """A function from the number of trips to the results of the case."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # The idle threads of one session would otherwise slow down the next one in the round.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(
        case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    y0, w = arrays(n)
    feeds = {"y0": y0, "w": w} | {seed: np.ones(1, np.float32) for seed in case.seeds}
    return lambda trips: session.run(case.results, feeds | {"trips": np.array(trips)})


def is_right(run: Run, n: int) -> bool:
    """Whether the results agree with the gradient computed in float64, zero trips included."""
    for trips in CHECKED:
        want = handwritten.expected(trips, *arrays(n))
        for got, right in zip(run(trips), want, strict=True):
            error = np.abs(got.reshape(right.shape) - right).max()
            if not error <= TOLERANCE * np.abs(right).max():
                return False
    return True


def runners(names: Iterable[str], n: int, threads: int) -> Iterator[tuple[str, Run]]:
    """The cases that can be built, run and are right; says why another is left out."""
    for name in names:
        # Whatever stops one case, a package that is not installed for one, the rest is comparable.
        try:
            run = runner(case(name, n), n, threads)
            right = is_right(run, n)
        except Exception as error:
            print(f"n = {n}: {name} is left out: {type(error).__name__}: {error}")
            continue
        if right:
            yield name, run
        else:
            print(f"n = {n}: {name} is left out: its values are wrong")


def medians(runs: dict[str, Run], trips: int) -> Times:
    """Median microseconds per trip of each, over interleaved rounds."""
    rounds = max(5, min(51, 100_000 // trips))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(trips)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run(trips)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) / trips * 1e6 for name, taken in seconds.items()}


def ratio(times: Times, above: str, below: str) -> str:
    return f"{times[above] / times[below]:.2f}" if {above, below} <= times.keys() else "-"


def figure(times: Times, name: str) -> str:
    return f"{times[name]:.2f}" if name in times else "-"


def print_times(trips: Iterable[int], threads: int) -> None:
    """The main table, and below it every hand-written form."""
    measured: dict[tuple[int, int], Times] = {}
    for n in ROWS:
        runs = dict(runners([WHILEBACK, *handwritten.FORMS, ONNX_AD], n, threads))
        measured |= {(n, count): medians(runs, count) for count in trips}
    print("\nMicroseconds per trip, forward and backward together")
    print(f"{'n':>4} {'T':>7} {'whileback':>10} {'by hand':>8} {'onnx-ad':>8}", end="")
    print(f" {'wb/hand':>8} {'wb/ad':>6} {'hand/ad':>8}  fastest by hand")
    for (n, count), times in measured.items():
        best = min(times.keys() & handwritten.FORMS, key=times.__getitem__, default="none is right")
        print(f"{n:4} {count:7} {figure(times, WHILEBACK):>10} {figure(times, best):>8}", end="")
        print(f" {figure(times, ONNX_AD):>8} {ratio(times, WHILEBACK, best):>8}", end="")
        print(f" {ratio(times, WHILEBACK, ONNX_AD):>6} {ratio(times, best, ONNX_AD):>8}  {best}")
    print("\nMicroseconds per trip of each form written by hand")
    print(f"{'':30}" + "".join(f"{f'{n}/{count}':>11}" for n, count in measured))
    for form in handwritten.FORMS:
        print(f"{form:30}" + "".join(f"{figure(times, form):>11}" for times in measured.values()))


def peak_bytes(name: str, n: int, trips: int) -> int:
    """How far one run raises the peak memory of this process above that of a run of two trips."""
    run = runner(case(name, n), n, threads=1)
    run(2)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(trips)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def print_memory(n: int, trips: int) -> None:
    """Peak memory per trip of each case, every one in a process of its own."""
    print(f"Peak memory per trip, n = {n}, T = {trips}: bytes, and rows of {4 * n} bytes")
    for name in [TAPE, WHILEBACK, *handwritten.FORMS, ONNX_AD]:
        command = [sys.executable, __file__, "--peak", name, str(n), str(trips)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name:30} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        each = int(done.stdout) / trips
        print(f"{name:30} {each:8.0f} {each / (4 * n):6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers of trips only")
    parser.add_argument("--threads", type=int, default=1, help="0: what ONNX Runtime chooses")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, n, trips = arguments.peak
        print(peak_bytes(name, int(n), int(trips)))
        return
    trips = TRIPS[:2] if arguments.quick else TRIPS
    # Memory first: a child's peak starts at what its parent holds, and this one holds little yet.
    print_memory(ROWS[-1], 10_000 if arguments.quick else TRIPS[-1])
    print_times(trips, arguments.threads)


if __name__ == "__main__":
    main()

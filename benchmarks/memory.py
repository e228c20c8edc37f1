"""Peak memory and microseconds per trip of each memory strategy, for loops of up to 10⁶ trips.

python benchmarks/memory.py            every number of trips, about ten minutes
python benchmarks/memory.py --quick    T = 1 000 and 50 000 only

The loop is v <- tanh(v * w) with v and w FLOAT[1024], 4 KiB each; the loss is the sum of the last
v. No model but those of JAX's `scan` knows the number of trips. Beside whileback run, where they
are installed: the package onnx-ad, JAX's `scan`, and equinox's checkpointed while loop with √(2T)
checkpoints. Every figure comes from a process of its own, the best of a few; a gradient that is
wrong after 1 000 trips is not measured.
"""

import argparse
import functools
import gc
import importlib
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort

import whileback

SIZE = 1024
TRIPS = (1_000, 10_000, 50_000, 1_000_000)
CHECKED = 1_000
# What keeps all needs 8 KB and more per trip; this many are more than 400 MB.
MOST_KEPT = 50_000
TOLERANCE = 1e-4

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
loop (int64 trips, float[1024] x, float[1024] w) => (float loss) {
  y = Loop (trips, "", x) <body = b (int64 i, bool c, float[1024] v) => (bool d, float[1024] u) {
    d = Identity (c)
    h = Mul (v, w)
    u = Tanh (h)
  }>
  loss = ReduceSum <keepdims = 0> (y)
}
"""

Gradients = tuple[np.ndarray, np.ndarray]
Run = Callable[[], Gradients]


def arguments() -> Gradients:
    """The first v and w: values and gradients get smaller no faster than powers of the trips."""
    x = np.random.default_rng(0).normal(size=SIZE)
    return x.astype(np.float32), np.ones(SIZE, np.float32)


def expected(trips: int) -> Gradients:
    """The gradients in float64, by hand."""
    x, w = (each.astype(np.float64) for each in arguments())
    values = [x]
    for _ in range(trips):
        values.append(np.tanh(values[-1] * w))
    dv, dw = np.ones(SIZE), np.zeros(SIZE)
    for v, u in zip(values[-2::-1], values[:0:-1], strict=True):
        dh = dv * (1 - u * u)
        dv, dw = dh * w, dw + dh * v
    return dv, dw


def on_onnxruntime(model: onnx.ModelProto, outputs: list[str], **seeds: np.ndarray) -> Callable:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x, w = arguments()

    def at(trips: int) -> Run:
        feeds = {"trips": np.array(trips), "x": x, "w": w, **seeds}
        return lambda: tuple(session.run(outputs, feeds))

    return at


def whileback_(memory: object) -> Callable:
    model = whileback.gradient(
        onnx.parser.parse_model(MODEL), "loss", ["x", "w"], memory=memory, reduce="sum"
    )
    return on_onnxruntime(model, ["x_grad", "w_grad"])


def onnx_ad() -> Callable:
    module = importlib.import_module("onnx_ad")
    model = module.reverse(onnx.parser.parse_model(MODEL), layout="onnx")
    return on_onnxruntime(model, ["adj_x", "adj_w"], adj_loss=np.ones(1, np.float32))


def jax_scan() -> Callable:
    jax = importlib.import_module("jax")
    jnp = jax.numpy

    def at(trips: int) -> Run:
        def loss(x: object, w: object) -> object:
            last, _ = jax.lax.scan(lambda v, _: (jnp.tanh(v * w), None), x, length=trips)
            return last.sum()

        return _compiled(jax, loss)

    return at


def equinox_while() -> Callable:
    jax = importlib.import_module("jax")
    loops = importlib.import_module("equinox.internal")
    jnp = jax.numpy

    def at(trips: int) -> Run:
        def loss(x: object, w: object) -> object:
            _, last = loops.while_loop(
                lambda state: state[0] < trips,
                lambda state: (state[0] + 1, jnp.tanh(state[1] * w)),
                (0, x),
                kind="checkpointed",
                checkpoints=math.isqrt(2 * trips) + 1,
            )
            return last.sum()

        return _compiled(jax, loss)

    return at


def _compiled(jax: object, loss: Callable) -> Run:
    x, w = arguments()
    run = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(x, w).compile()
    return lambda: tuple(map(np.asarray, run(x, w)))


CASES: dict[str, tuple[Callable[[], Callable], bool]] = {
    "keep": (lambda: whileback_("keep"), True),
    "recompute": (lambda: whileback_("recompute"), True),
    "checkpoint": (lambda: whileback_("checkpoint"), False),
    "budget, 300 frames": (lambda: whileback_(whileback.budget(300, TRIPS[-1])), False),
    "onnx-ad": (onnx_ad, True),
    "JAX scan": (jax_scan, True),
    "equinox": (equinox_while, False),
}


def measure(name: str, trips: int) -> tuple[float, float]:
    """Microseconds per trip, and how many MB one run adds to the peak of this process."""
    at = CASES[name][0]()
    for got, right in zip(at(CHECKED)(), expected(CHECKED), strict=True):
        if not np.abs(got.reshape(right.shape) - right).max() <= TOLERANCE * np.abs(right).max():
            raise ArithmeticError("its gradient is wrong")
    run = at(trips)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    run()
    taken = time.perf_counter() - start
    return taken / trips * 1e6, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def in_a_process(name: str, trips: int) -> list[float] | str:
    command = [sys.executable, __file__, "--one", name, str(trips)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return [float(word) for word in done.stdout.split()]


def print_table(trips: tuple[int, ...], rounds: int) -> None:
    print(f"{'':20}" + "".join(f"{f'T = {count:,}':>22}" for count in trips))
    print(f"{'':20}" + f"{'µs/trip':>12}{'MB':>10}" * len(trips), flush=True)
    for name, (_, keeps_all) in CASES.items():
        print(f"{name:20}", end="")
        for count in trips:
            if keeps_all and count > MOST_KEPT:
                print(f"{'-':>12}{'-':>10}", end="")
                continue
            found = [in_a_process(name, count) for _ in range(rounds if count < TRIPS[-1] else 1)]
            wrong = next((each for each in found if isinstance(each, str)), None)
            if wrong is not None:
                print(f"  {wrong}", end="")
                break
            best = functools.reduce(lambda a, b: list(map(min, a, b)), found)
            print(f"{best[0]:12.1f}{best[1]:10.1f}", end="", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 000 and 50 000 trips only")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(*measure(given.one[0], int(given.one[1])))
        return
    print_table((TRIPS[0], TRIPS[2]) if given.quick else TRIPS, rounds=3)


if __name__ == "__main__":
    main()

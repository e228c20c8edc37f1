"""Microseconds per trip of Caffe2's while loops: whileback beside the real Caffe2.

WHILEBACK_CAFFE2_PYTHON=…/bin/python python benchmarks/caffe2_nets.py

The bodies are chains of elementwise operators, or a product with a matrix between two of them; the
condition counts to T = 1 000. Both sides get the same net. The real Caffe2 runs it forward, with
the gradient that its own generator makes (only a first run can be timed: a second one crashes), and
the net that whileback's generator makes; whileback runs the forward net and the gradient model that
it makes, on ONNX Runtime. Rounds alternate, medians are printed.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import whileback
from whileback import caffe2

TRIPS = 1_000
SIZES = (4, 64)
ROUNDS = 7
REAL = Path(__file__).with_name("caffe2_real.py")
Arrays = dict[str, np.ndarray]


def chain(net: caffe2.NetBuilder, y: caffe2.Blob, count: int) -> None:
    """Tanh and Scale in turn, ending with Tanh; Caffe2's generator refuses two in place."""
    value = y
    for left in range(count, 0, -1):
        out = y if left == 1 else None
        value = net.Tanh(value, out=out) if left % 2 else net.Scale(value, scale=1.01, out=out)


def product(net: caffe2.NetBuilder, y: caffe2.Blob, _: int) -> None:
    """Scale, a product with the matrix w, Tanh."""
    old = net.Scale(y, scale=1.0)
    net.Tanh(net.MatMul(old, "w"), out=y)


BODIES: dict[str, tuple[Callable[[caffe2.NetBuilder, caffe2.Blob, int], None], int]] = {
    "1 elementwise": (chain, 1),
    "3 elementwise": (chain, 3),
    "10 elementwise": (chain, 10),
    "3 with MatMul": (product, 3),
}


def forward_net(body: str) -> caffe2.NetDef:
    """The loop as Caffe2's own builder encodes it: its body copies the blobs outside of it."""
    build, count = BODIES[body]
    with caffe2.NetBuilder("loop") as net:
        if build is product:
            net.input("w")
        y, i, one, trips = (net.input(name) for name in ("y", "i", "one", "T"))
        with net.while_():
            with net.condition():
                net.Add(i, one, out=i)
                net.LE(i, trips)
            build(net, y, count)
        net.output(y)
    proto = net.proto()
    loop = next(op for op in proto.op if op.type == "While")
    do = next(arg.n for arg in loop.arg if arg.name == "loop_net").op[0]
    do.arg.add(name="copy_external_blobs", i=1)
    return proto


def feeds(n: int) -> Arrays:
    w, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))
    return {
        "y": np.linspace(0.2, 1, n, dtype=np.float32)[None],
        "w": w.astype(np.float32),
        "i": np.array(0, np.int32),
        "one": np.array(1, np.int32),
        "T": np.array(TRIPS, np.int32),
        "seed_y": np.ones((1, n), np.float32),
    }


def median_time(run: Callable[[], object]) -> float:
    run()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def ours(body: str, arrays: Arrays) -> dict[str, float]:
    net = forward_net(body)
    wrt = [name for name in ("y", "w") if name in net.external_input]
    forward = caffe2.convert(net, inputs={name: arrays[name] for name in net.external_input})
    gradient = whileback.vjp(forward, of=caffe2.last_versions(forward)["y"], wrt=wrt)
    found = {}
    for name, model in (("forward", forward), ("forward and gradient", gradient)):
        compiled = whileback.compile(model, threads=1)
        given = {n: arrays.get(n, arrays["seed_y"]) for n in compiled.inputs}
        found[name] = median_time(lambda run=compiled, given=given: run(given))
    return found


def real(body: str, arrays: Arrays, python: str) -> dict[str, float]:
    net = forward_net(body)
    wrt = [name for name in ("y", "w") if name in net.external_input]
    gradient, _ = caffe2.add_gradient_operators(net, {"y": "seed_y"}, wrt=wrt)
    for each in (net, gradient):
        del each.external_input[:]
    with tempfile.TemporaryDirectory() as folder:
        caffe2.save(net, f"{folder}/net.pb")
        caffe2.save(gradient, f"{folder}/gradient.pb")
        np.savez(f"{folder}/feeds.npz", **arrays)
        task = {
            "net": f"{folder}/net.pb",
            "gradient": f"{folder}/gradient.pb",
            "feeds": f"{folder}/feeds.npz",
            "seeds": {"y": "seed_y"},
            "rounds": ROUNDS,
        }
        result = subprocess.run(
            [python, REAL],
            input=json.dumps(task),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    python = os.environ.get("WHILEBACK_CAFFE2_PYTHON")
    for n in SIZES:
        for body in BODIES:
            arrays = feeds(n)
            lines = {f"whileback, {k}": v for k, v in ours(body, arrays).items()}
            if python:
                lines |= {f"real Caffe2, {k}": v for k, v in real(body, arrays, python).items()}
            print(f"n = {n}, {body}: microseconds per trip")
            for name, seconds in lines.items():
                print(f"    {seconds / TRIPS * 1e6:8.2f}  {name}")
            if python:
                own = lines["real Caffe2, own gradient, first run"]
                ratio = lines["whileback, forward and gradient"] / own
                print(f"    {ratio:8.3f}  of the time of Caffe2's own gradient")
    if not python:
        print("The real Caffe2 is left out: WHILEBACK_CAFFE2_PYTHON names no interpreter.")


if __name__ == "__main__":
    main()

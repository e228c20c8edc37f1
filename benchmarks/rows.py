"""What a trip costs that reads or writes a row, at T trips and at 4·T.

Prints, for each of the four loops, the CPU microseconds per trip of the model and of the model with
its gradient, and how much higher that brings the peak of memory, all in processes of their own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import onnx_ir as ir

import whileback

HEADER = '<ir_version: 10, opset_import: ["" : 21]> model '
LOOP = """(int64 M, float[N,16] A0, float[16] v0, float[16] w) => (float[N,16] A1, float[16] v1) {
  A1, v1 = Loop(M, , A0, v0)
      <body = b (int64 i, bool c, float[N,16] A, float[16] v)
      => (bool d, float[N,16] Z, float[16] u) {
    d = Identity(c)
    axis = Constant<value_ints = [0]>()
    two = Constant<value_int = 2>()
    k = Unsqueeze(i, axis)
    %s
  }>
}"""
BODIES = {
    "a row is read": "x = Gather(A, i) p = Mul(x, v) q = Add(p, w) u = Tanh(q) Z = Identity(A)",
    "a row is written": "p = Mul(v, w) u = Tanh(p) Z = ScatterND(A, k, u)",
    "a ring of 64 rows": """rows = Constant<value = int64[1] {64}>() j = Sub(k, rows)
        n = Mod(k, rows) m = Mod(j, rows) r = Gather(A, m) x = Squeeze(r, axis)
        p = Mul(x, w) u = Tanh(p) Z = ScatterND(A, n, u)""",
    "a cache is read": """Z = ScatterND(A, k, v) e = MatMul(Z, w) g = Softmax(e)
        h = MatMul(g, Z) u = Tanh(h)""",
}


def measure(name: str, trips: int) -> None:
    """Print one row of the table."""
    rng = np.random.default_rng(0)
    model = ir.from_onnx_text(HEADER + LOOP % BODIES[name])
    rows = 64 if "ring" in name else trips
    inputs = {"M": np.int64(trips), "A0": rng.normal(size=(rows, 16)).astype(np.float32)}
    inputs |= {key: rng.normal(size=16).astype(np.float32) for key in ("v0", "w")}
    outputs, forward, before = run(model, inputs)
    inputs |= {f"{key}_grad": np.ones_like(value) for key, value in outputs.items()}
    wrt = ["A0", "v0", "w"] if "ring" not in name else ["A0", "w"]
    _, both, after = run(whileback.vjp(model, ["A1", "v1"], wrt), inputs)
    print(
        f"{name:18} {trips:7} {forward / trips * 1e6:9.1f} {both / trips * 1e6:14.1f}"
        f" {(after - before) / 1024:11.1f} MB",
        flush=True,
    )


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float, int]:
    """Return the outputs, the seconds of the faster of two runs, and the peak of memory in KiB."""
    compiled, seconds = whileback.compile(model, threads=1), []
    for _ in range(2):
        start = time.process_time()
        outputs = compiled(inputs)
        seconds.append(time.process_time() - start)
    return outputs, min(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trips", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--one", help="measure one loop, in this process")
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.trips[0])
        return
    print("µs per trip:        trips   forward  with gradient  memory for that")
    for name in BODIES:
        for trips in options.trips:
            command = [sys.executable, __file__, "--one", name, "--trips", str(trips)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

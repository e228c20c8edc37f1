"""Time of the gradient of an LSTM on ONNX Runtime, as a multiple of the fused forward pass.

python benchmarks/lstm.py            every size, about two minutes
python benchmarks/lstm.py --quick    T = 50 only, half a minute

The loss is the sum of Y; wanted are the gradients of X, W, R, B and both initial states. Rounds are
interleaved (the forward pass alone, then with the backward pass), and medians are printed. A
gradient that disagrees with finite differences in float64 is not timed.
"""

import argparse
import itertools
import statistics
import time

import numpy as np
import onnx
import onnxruntime as ort

import whileback

STEPS = (50, 100, 200, 400)
HIDDEN = (64, 128, 256)
BATCHES = (1, 16)
SECONDS = 1.5
WANTED = ("X", "W", "R", "B", "h", "c")
TOLERANCE = 1e-3

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
lstm (float[T,N,{n}] X, float[1,{gates},{n}] W, float[1,{gates},{n}] R, float[1,{biases}] B,
      float[1,N,{n}] h, float[1,N,{n}] c) => (float loss) {{
  Y = LSTM <hidden_size = {n}> (X, W, R, B, , h, c)
  loss = ReduceSum <keepdims = 0> (Y)
}}
"""

Arrays = dict[str, np.ndarray]


def forward_model(n: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL.format(n=n, gates=4 * n, biases=8 * n))


def arguments(n: int, steps: int, batch: int) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {
        "X": (steps, batch, n),
        "W": (1, 4 * n, n),
        "R": (1, 4 * n, n),
        "B": (1, 8 * n),
        "h": (1, batch, n),
        "c": (1, batch, n),
    }
    return {
        name: rng.normal(0, 1 if name == "X" else n**-0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def sum_of_states(v: Arrays) -> float:
    """The loss in numpy, one step after the other."""
    h, c, total = v["h"][0], v["c"][0], 0.0
    for x in v["X"]:
        z = x @ v["W"][0].T + h @ v["R"][0].T + sum(np.split(v["B"][0], 2))
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in np.split(z, 4, axis=1)[:3])
        c = f * c + i * np.tanh(np.split(z, 4, axis=1)[3])
        h = o * np.tanh(c)
        total += h.sum()
    return total


def is_right(gradients: Arrays, feeds: Arrays) -> bool:
    """Whether the slope along a random direction is what finite differences in float64 give."""
    rng, point = np.random.default_rng(1), {k: v.astype(np.float64) for k, v in feeds.items()}
    direction = {name: rng.normal(size=value.shape) for name, value in point.items()}

    def at(step: float) -> float:
        return sum_of_states({k: v + step * direction[k] for k, v in point.items()})

    want = (at(1e-5) - at(-1e-5)) / 2e-5
    got = sum(np.vdot(gradients[name], direction[name]) for name in WANTED)
    return abs(got - want) <= TOLERANCE * abs(want)


def session(model: onnx.ModelProto, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # The idle threads of one session would otherwise slow down the next one in the round.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def medians(runs: list[ort.InferenceSession], feeds: Arrays) -> list[float]:
    """Median microseconds of each session, over interleaved rounds."""
    taken: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(taken[0]) < 5:
        for run, seconds in zip(runs, taken, strict=True):
            start = time.perf_counter()
            run.run(None, feeds)
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) * 1e6 for seconds in taken]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="T = 50 only")
    parser.add_argument("--threads", type=int, default=1, help="0: what ONNX Runtime chooses")
    options = parser.parse_args()
    print("Microseconds per step: the fused forward pass, and forward and backward together")
    print(f"{'hidden':>6} {'batch':>5} {'T':>4} {'forward':>8} {'gradient':>9} {'ratio':>6}")
    for n, batch in itertools.product(HIDDEN, BATCHES):
        forward = session(forward_model(n), options.threads)
        gradient = session(
            whileback.gradient(forward_model(n), of="loss", wrt=WANTED), options.threads
        )
        for steps in STEPS[:1] if options.quick else STEPS:
            feeds = arguments(n, steps, batch)
            results = gradient.run([f"{name}_grad" for name in WANTED], feeds)
            if not is_right(dict(zip(WANTED, results, strict=True)), feeds):
                print(f"{n:6} {batch:5} {steps:4} left out: its values are wrong")
                continue
            alone, both = (each / steps for each in medians([forward, gradient], feeds))
            print(f"{n:6} {batch:5} {steps:4} {alone:8.2f} {both:9.2f} {both / alone:6.2f}")


if __name__ == "__main__":
    main()

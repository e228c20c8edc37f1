"""Microseconds per trip of forward and backward pass: whileback on XLA beside what else there is.

python benchmarks/xla.py            every loop and number of trips, about four minutes
python benchmarks/xla.py --quick    the first loop only, and fewer trips
python benchmarks/xla.py --loop newton --system onnxruntime    one loop, beside one other system

The loops: y <- tanh(y·w) for n = 4, 64 and 256; a Newton iteration that stops by itself; an LSTM
written as a loop; a loop in a loop. Only JAX's `scan` is told the number of trips. Whatever is not
installed is left out: equinox's checkpointed while loop, PyTorch, TensorFlow. One thread; each
figure is the median of several samples of as many calls as fill some milliseconds, the systems in
turn, after first calls that may compile. What is measured is the time of the processor, so that
other programs on the machine count little.
A gradient that differs from that of `scan` is not measured: after 10⁵ trips in float32, some do.
The last column is the machine's limit for the first loop: compiled loops that make its two products
with w and nothing else.
"""

import argparse
import importlib.util
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

THREADS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}
os.environ.update(THREADS)
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

import whileback

TRIPS = (100, 1_000, 10_000, 100_000)
SIZES = (4, 64, 256)
SAMPLES = 9
# As many seconds a sample takes at least, if its calls are short.
SAMPLE = 5e-3
# A system that takes longer is sampled only twice more.
SLOW = 2.0
TOLERANCE = 2e-3

Step = Callable[[Any, Any, Sequence[Any]], Any]
Call = Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class Problem:
    """A loop that carries `start` and reads `weights`: as ONNX, and a trip of it in Python.

    `step` takes a module with `tanh`, `sigmoid` and `concat`, what is carried, and the weights.
    The ONNX model has the inputs `v`, `w0` … and `trips`, and the output `y`.
    """

    title: str
    model: str
    step: Step
    start: np.ndarray
    weights: tuple[np.ndarray, ...]
    trips: int

    @property
    def arrays(self) -> list[np.ndarray]:
        """What gradients are wanted of."""
        return [self.start, *self.weights]


def normal(seed: int, *shape: int) -> np.ndarray:
    scale = shape[0] ** -0.5 if len(shape) > 1 else 1
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


LOOP = """
<ir_version: 10, opset_import: ["": 21]>
loop ({types} v, {weights}, int64 trips) => ({types} y) {{
  y = Loop (trips, "", v) <body = b (int64 i, bool c, {types} u) => (bool d, {types} z) {{
    d = Identity (c)
    {body}
  }}>
}}
"""


def tanh(size: int, trips: int) -> Problem:
    """y <- tanh(y·w)."""
    model = LOOP.format(
        types=f"float[1,{size}]",
        weights=f"float[{size},{size}] w0",
        body="p = MatMul (u, w0) z = Tanh (p)",
    )
    start, weight = normal(0, 1, size), normal(1, size, size)
    return Problem(
        f"tanh n={size}", model, lambda xp, v, w: xp.tanh(v @ w[0]), start, (weight,), trips
    )


def nested(size: int, trips: int) -> Problem:
    """Ten trips of y <- tanh(y·w), then y <- sigmoid(y·w), `trips` times."""
    row = f"float[1,{size}]"
    inner = f"""K = Constant <value_int = 10> ()
    s = Loop (K, "", u) <body = e (int64 j, bool f, {row} q) => (bool g, {row} r) {{
      g = Identity (f) m = MatMul (q, w0) r = Tanh (m)
    }}> p = MatMul (s, w0) z = Sigmoid (p)"""
    model = LOOP.format(types=row, weights=f"float[{size},{size}] w0", body=inner)

    def step(xp: Any, v: Any, w: Sequence[Any]) -> Any:
        return xp.sigmoid(xp.repeat(10, lambda u: xp.tanh(u @ w[0]), v) @ w[0])

    start, weight = normal(0, 1, size), normal(1, size, size)
    return Problem(f"nested n={size}", model, step, start, (weight,), trips)


def lstm(size: int, trips: int) -> Problem:
    """An LSTM without input; it carries [h, c]."""
    model = LOOP.format(
        types=f"float[1,{2 * size}]",
        weights=f"float[{size},{4 * size}] w0, float[{4 * size}] w1",
        body="""h, k = Split <axis = 1, num_outputs = 2> (u)
    p = MatMul (h, w0) a = Add (p, w1)
    ia, oa, fa, ga = Split <axis = 1, num_outputs = 4> (a)
    ig = Sigmoid (ia) og = Sigmoid (oa) fg = Sigmoid (fa) gg = Tanh (ga)
    kept = Mul (fg, k) new = Mul (ig, gg) k1 = Add (kept, new)
    t = Tanh (k1) h1 = Mul (og, t) z = Concat <axis = 1> (h1, k1)""",
    )

    def step(xp: Any, v: Any, w: Sequence[Any]) -> Any:
        a = v[:, :size] @ w[0] + w[1]
        i, o, f = (xp.sigmoid(a[:, k * size : (k + 1) * size]) for k in range(3))
        c = f * v[:, size:] + i * xp.tanh(a[:, 3 * size :])
        return xp.concat([o * xp.tanh(c), c])

    weights = normal(1, size, 4 * size), normal(2, 4 * size)
    return Problem(f"lstm n={size}", model, step, normal(0, 1, 2 * size), weights, trips)


def newton(size: int) -> Problem:
    """Newton's iteration for a double root, until the step is short: about twenty trips."""
    model = f"""
<ir_version: 10, opset_import: ["": 21]>
loop (float[1,{size}] v, float[1,{size}] w0, int64 trips) => (float[1,{size}] y) {{
  yes = Constant <value_int = 1> () start = Cast <to = 9> (yes)
  short = Constant <value_float = 1e-5> () half = Constant <value_float = 0.5> ()
  y = Loop ("", start, v)
    <body = b (int64 i, bool c, float[1,{size}] u) => (bool d, float[1,{size}] z) {{
    e = Sub (u, w0) s = Mul (half, e) z = Sub (u, s)
    a = Abs (s) m = ReduceMax <keepdims = 0> (a) d = Greater (m, short)
  }}>
}}
"""
    start, root = normal(0, 1, size), normal(1, 1, size)
    trips, distance = 0, np.abs(start - root).max() / 2
    while trips == 0 or distance * 2 > 1e-5:
        trips, distance = trips + 1, distance / 2
    return Problem("newton", model, lambda xp, v, w: v - 0.5 * (v - w[0]), start, (root,), trips)


def on_whileback(problem: Problem, engine: str, **options: Any) -> Call:
    names = ["v", *(f"w{index}" for index in range(len(problem.weights)))]
    model = whileback.vjp(ir.from_onnx_text(problem.model), of="y", wrt=names)
    run = whileback.compile(model, engine=engine, **options)
    array = jnp.asarray if engine == "xla" else np.asarray
    given = dict(zip(names, map(array, problem.arrays), strict=True))
    given["y_grad"] = array(np.ones_like(problem.start))
    given["trips"] = np.array(problem.trips)
    known = {name: value for name, value in given.items() if name in run.inputs}
    return lambda: _ready(run(known).values())


def _ready(results: Any) -> Sequence[Any]:
    return jax.block_until_ready(list(results))


class OnJax:
    """What a step needs of JAX."""

    tanh, sigmoid = staticmethod(jnp.tanh), staticmethod(jax.nn.sigmoid)

    @staticmethod
    def concat(parts: Sequence[Any]) -> Any:
        return jnp.concatenate(parts, 1)

    @staticmethod
    def repeat(trips: int, step: Callable, v: Any) -> Any:
        return jax.lax.scan(lambda u, _: (step(u), None), v, None, length=trips)[0]


def _jax_call(problem: Problem, loop: Callable) -> Call:
    @jax.jit
    def both(start: Any, *weights: Any) -> Any:
        y, backward = jax.vjp(
            lambda v, *w: loop(lambda u: problem.step(OnJax, u, w), v), start, *weights
        )
        return y, *backward(jnp.ones_like(y))

    arrays = list(map(jnp.asarray, problem.arrays))
    return lambda: jax.block_until_ready(both(*arrays))


def on_scan(problem: Problem) -> Call:
    return _jax_call(problem, lambda step, v: OnJax.repeat(problem.trips, step, v))


def on_equinox(problem: Problem) -> Call:
    from equinox.internal import while_loop

    trips, slots = problem.trips, math.isqrt(2 * problem.trips) + 1

    def loop(step: Callable, v: Any) -> Any:
        def body(state: Any) -> Any:
            return state[0] + 1, step(state[1])

        return while_loop(
            lambda state: state[0] < trips, body, (0, v), kind="checkpointed", checkpoints=slots
        )[1]

    return _jax_call(problem, loop)


def on_pytorch(problem: Problem) -> Call:
    import torch

    torch.set_num_threads(1)

    class OnTorch:
        tanh, sigmoid = torch.tanh, torch.sigmoid

        @staticmethod
        def concat(parts: Sequence[Any]) -> Any:
            return torch.cat(parts, 1)

        @staticmethod
        def repeat(trips: int, step: Callable, v: Any) -> Any:
            for _ in range(trips):
                v = step(v)
            return v

    tensors = [torch.from_numpy(array).requires_grad_() for array in problem.arrays]

    def call() -> Sequence[Any]:
        start, *weights = tensors
        y = OnTorch.repeat(problem.trips, lambda v: problem.step(OnTorch, v, weights), start)
        found = torch.autograd.grad(y, tensors, torch.ones_like(y))
        return [each.detach().numpy() for each in (y, *found)]

    return call


def on_tensorflow(problem: Problem) -> Call:
    import tensorflow as tf

    class OnTensorflow:
        tanh, sigmoid = tf.tanh, tf.sigmoid

        @staticmethod
        def concat(parts: Sequence[Any]) -> Any:
            return tf.concat(parts, 1)

        @staticmethod
        def repeat(trips: Any, step: Callable, v: Any) -> Any:
            return tf.while_loop(
                lambda i, _: i < trips, lambda i, u: (i + 1, step(u)), (0, v), parallel_iterations=1
            )[1]

    @tf.function
    def both(trips: Any, *arrays: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            start, *weights = arrays
            y = OnTensorflow.repeat(trips, lambda v: problem.step(OnTensorflow, v, weights), start)
        return y, *tape.gradient(y, arrays)

    given = tf.constant(problem.trips), *map(tf.constant, problem.arrays)
    return lambda: [each.numpy() for each in both(*given)]


SYSTEMS: dict[str, tuple[str, Callable[[Problem], Call]]] = {
    "scan": ("jax", on_scan),
    "whileback": ("jax", lambda problem: on_whileback(problem, "xla")),
    "onnxruntime": ("onnxruntime", lambda problem: on_whileback(problem, "onnxruntime", threads=1)),
    "equinox": ("equinox", on_equinox),
    "pytorch": ("torch", on_pytorch),
    "tensorflow": ("tensorflow", on_tensorflow),
}


def only_products(problem: Problem) -> Call:
    """A loop that makes as many products with w as a trip and its way back."""

    @jax.jit
    def products(v: Any, w: Any) -> Any:
        once = jax.lax.fori_loop(0, problem.trips, lambda _, u: u @ w, v)
        return jax.lax.fori_loop(0, problem.trips, lambda _, u: u @ w.T, once)

    arrays = list(map(jnp.asarray, problem.arrays))
    return lambda: [jax.block_until_ready(products(*arrays))]


def report(problem: Problem, systems: Sequence[str]) -> None:
    """Measure the systems in turn, and print a line."""
    calls = {name: SYSTEMS[name][1](problem) for name in systems}
    wanted = [np.asarray(each) for each in calls["scan"]()]
    calls = {name: call for name, call in calls.items() if _agree(call(), wanted)}
    if problem.title.startswith("tanh"):
        calls["products"] = only_products(problem)
        calls["products"]()
    counts = {
        name: max(1, round(SAMPLE / max(_seconds(call, 1), 1e-6))) for name, call in calls.items()
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        for name, call in calls.items():
            if len(times[name]) > 1 and times[name][0] > SLOW:
                continue
            times[name].append(_seconds(call, counts[name]))
    micro = {name: statistics.median(each) / problem.trips * 1e6 for name, each in times.items()}
    row = "".join(
        f"{micro[name]:12.3f}" if name in micro else f"{'differs':>12}" for name in systems
    )
    ratio = micro["whileback"] / micro["scan"]
    limit = f"{micro['products']:12.3f}" if "products" in micro else ""
    print(f"{problem.title:14}{problem.trips:8}{row}{ratio:10.2f}{limit}", flush=True)


def _seconds(call: Call, count: int) -> float:
    """Return how long a call takes, on average of some."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def _agree(found: Sequence[Any], wanted: Sequence[np.ndarray]) -> bool:
    """Tell whether results differ by no more than the rounding of float32 over many trips."""
    return all(
        np.abs(np.asarray(a) - b).max() <= TOLERANCE * max(np.abs(b).max(), 1e-3)
        for a, b in zip(found, wanted, strict=True)
    )


def problems(quick: bool) -> Iterator[Problem]:
    for size in SIZES:
        for trips in TRIPS[: 2 if quick else None]:
            yield tanh(size, trips)
    if not quick:
        yield newton(16)
        for trips in TRIPS[1:3]:
            yield lstm(64, trips)
        for trips in TRIPS[:2]:
            yield nested(16, trips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first loop, fewer trips")
    parser.add_argument("--loop", default="", help="only loops whose names begin so")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="beside scan; again")
    given = parser.parse_args()
    wanted = {*SYSTEMS} if given.system is None else {"scan", "whileback", *given.system}
    systems = [
        name
        for name, (module, _) in SYSTEMS.items()
        if name in wanted and importlib.util.find_spec(module)
    ]
    names = "".join(f"{name:>12}" for name in systems)
    print(f"{'µs per trip':14}{'trips':>8}{names}{'of scan':>10}{'products':>12}")
    for problem in problems(given.quick):
        if problem.title.startswith(given.loop):
            report(problem, systems)


if __name__ == "__main__":
    main()

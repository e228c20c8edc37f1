"""An oscillator solved with steps of adaptive size, some of which are rejected.

Whether a step is taken depends on its error: an `If` in a `while`. The gradient goes back through
the steps that were taken, through their sizes as well.
"""

import numpy as np
import onnx
from build import to_model
from onnxscript import FLOAT, INT64, script
from onnxscript import opset21 as op

import whileback


@script()
def oscillator(
    start: FLOAT[2], stiffness: FLOAT, until: FLOAT, tolerance: FLOAT
) -> tuple[FLOAT[2], INT64, INT64]:
    """Solve Van der Pol's equation; return the end, and how many steps were taken and tried."""
    state = op.Identity(start)
    time = until * 0.0
    size = until * 0.1
    taken = op.Constant(value_int=0)
    tried = op.Constant(value_int=0)
    going = time < until
    while going:
        x, v = op.Split(state, num_outputs=2)
        first = op.Concat(v, stiffness * (1.0 - x * x) * v - x, axis=0)
        ahead = state + size * first
        p, w = op.Split(ahead, num_outputs=2)
        second = op.Concat(w, stiffness * (1.0 - p * p) * w - p, axis=0)
        better = state + 0.5 * size * (first + second)
        error = op.ReduceMax(op.Abs(better - ahead), keepdims=0)
        good = error <= tolerance
        if good:
            next_ = op.Identity(better)
            at = time + size
            count = taken + 1
        else:
            next_ = op.Identity(state)
            at = op.Identity(time)
            count = op.Identity(taken)
        factor = 0.9 * op.Sqrt(tolerance / op.Max(error, 1e-9))
        size = op.Min(size * op.Clip(factor, 0.2, 5.0), op.Max(until - at, 1e-6))
        state = next_
        time = at
        taken = count
        tried = tried + 1
        going = time < until
    end = op.Identity(state)
    steps = op.Identity(taken)
    tries = op.Identity(tried)
    return end, steps, tries


def model() -> onnx.ModelProto:
    """Return it as an ONNX model: inputs start, stiffness, until, tolerance; outputs as above."""
    return to_model(oscillator)


def inputs(until: float = 6.0) -> dict[str, np.ndarray]:
    """Return the inputs for an oscillator that has a sharp turn."""
    return {
        "start": np.float32([2, 0]),
        "stiffness": np.float32(4),
        "until": np.float32(until),
        "tolerance": np.float32(1e-2),
    }


def main() -> None:
    """Print how many steps were taken, and the check of the gradient."""
    solver = model()
    found = whileback.compile(solver)(inputs())
    print(f"{found['steps']} steps taken of {found['tries']} that were tried\n")
    print(whileback.check(solver, "end", ["start", "stiffness"], inputs()))


if __name__ == "__main__":
    main()

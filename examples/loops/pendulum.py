"""A pendulum swung for 100 000 steps of Runge and Kutta: how its end depends on how it began.

The loop is plain Python, which onnxscript turns into ONNX. A tape of all that its steps compute
would take O(T) memory; with memory="checkpoint" it takes O(√T).
"""

import numpy as np
import onnx
from build import to_model
from onnxscript import FLOAT, INT64, script
from onnxscript import opset21 as op

import whileback

GRAVITY = 9.81


@script()
def pendulum(steps: INT64, start: FLOAT[2], length: FLOAT, dt: FLOAT) -> FLOAT[2]:
    """Swing from an angle and a speed, `start`; fourth order, with steps of `dt` seconds."""
    state = op.Identity(start)
    for _ in range(steps):
        a1, v1 = op.Split(state, num_outputs=2)
        k1 = op.Concat(v1, -GRAVITY / length * op.Sin(a1), axis=0)
        a2, v2 = op.Split(state + 0.5 * dt * k1, num_outputs=2)
        k2 = op.Concat(v2, -GRAVITY / length * op.Sin(a2), axis=0)
        a3, v3 = op.Split(state + 0.5 * dt * k2, num_outputs=2)
        k3 = op.Concat(v3, -GRAVITY / length * op.Sin(a3), axis=0)
        a4, v4 = op.Split(state + dt * k3, num_outputs=2)
        k4 = op.Concat(v4, -GRAVITY / length * op.Sin(a4), axis=0)
        state = state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    end = op.Identity(state)
    return end


def model() -> onnx.ModelProto:
    """Return the pendulum as an ONNX model: inputs steps, start, length, dt; output `end`."""
    return to_model(pendulum)


def main() -> None:
    """Print the gradient of the last angle after 100 000 steps, and its check after 50."""
    swing = model()
    print(whileback.check(swing, "end", ["start", "length"], inputs(50)))
    gradient = whileback.vjp(swing, "end", ["start", "length"], memory="checkpoint")
    seed = np.float32([1, 0])
    print("\nAfter 100 000 steps of 0.1 ms, how the angle changes")
    found = whileback.compile(gradient)({**inputs(100_000), "end_grad": seed})
    print(f"  with the first angle and speed: {found['start_grad']}")
    print(f"  with the length: {found['length_grad']}")


def inputs(steps: int) -> dict[str, np.ndarray]:
    """Return the inputs for a pendulum of 1 m, let go at 1 radian, and so many steps of 0.1 ms."""
    return {
        "steps": np.array(steps),
        "start": np.float32([1, 0]),
        "length": np.float32(1),
        "dt": np.float32(1e-4),
    }


if __name__ == "__main__":
    main()

"""A Kalman filter: how well its settings explain what was measured, and how to better them.

A position is measured with noise while a speed changes at random. The filter's likelihood is
differentiated with respect to both variances, and gradient ascent finds those of the data.
"""

import numpy as np
import onnx
from build import to_model
from onnxscript import FLOAT, script
from onnxscript import opset21 as op

import whileback


@script()
def kalman(measured: FLOAT["T"], log_drift: FLOAT, log_noise: FLOAT) -> FLOAT:
    """Return the log likelihood of the measurements, but for a constant."""
    steps = op.Size(measured)
    move = op.Constant(value_floats=[1.0, 1.0, 0.0, 1.0])
    shape = op.Constant(value_ints=[2, 2])
    step = op.Reshape(move, shape)
    drift = op.Exp(log_drift) * op.EyeLike(step)
    noise = op.Exp(log_noise)
    look = op.Constant(value_floats=[1.0, 0.0])
    state = op.Constant(value_floats=[0.0, 0.0])
    spread = 10.0 * op.EyeLike(step)
    likelihood = op.Constant(value_float=0.0)
    for i in range(steps):
        expected = op.MatMul(step, state)
        wide = op.MatMul(op.MatMul(step, spread), op.Transpose(step)) + drift
        seen = op.MatMul(wide, look)
        variance = op.MatMul(look, seen) + noise
        gain = seen / variance
        surprise = op.Gather(measured, i) - op.MatMul(look, expected)
        likelihood = likelihood - 0.5 * (surprise * surprise / variance + op.Log(variance))
        state = expected + gain * surprise
        column = op.Unsqueeze(gain, [1])
        row = op.Unsqueeze(seen, [0])
        spread = wide - op.MatMul(column, row)
    fit = op.Identity(likelihood)
    return fit


def model() -> onnx.ModelProto:
    """Return the filter as an ONNX model: inputs measured, log_drift, log_noise; output `fit`."""
    return to_model(kalman)


def measurements(count: int, drift: float, noise: float) -> np.ndarray:
    """Return positions that were measured with variances of so much."""
    rng = np.random.default_rng(0)
    changes = rng.normal(0, np.sqrt(drift), (count, 2))
    position, speed, seen = 0.0, 0.0, []
    for to_position, to_speed in changes:
        position, speed = position + speed + to_position, speed + to_speed
        seen.append(position + rng.normal(0, np.sqrt(noise)))
    return np.float32(seen)


def main() -> None:
    """Print the check of the gradient, then find the variances of data by gradient ascent."""
    kalman_filter, wrt = model(), ["log_drift", "log_noise"]
    data = measurements(300, drift=0.01, noise=2.0)
    at = {"log_drift": np.float32(-2), "log_noise": np.float32(-1)}
    print(whileback.check(kalman_filter, "fit", wrt, {"measured": data[:30], **at}))
    gradient = whileback.compile(whileback.gradient(kalman_filter, "fit", wrt))
    print("\nclimb   drift   noise  log likelihood")
    for climb in range(201):
        found = gradient(measured=data, **at)
        if climb % 50 == 0:
            drift, noise = np.exp(at["log_drift"]), np.exp(at["log_noise"])
            print(f"{climb:5}  {drift:6.4f}  {noise:6.4f}  {found['fit']:14.4f}")
        at = {name: at[name] + np.float32(0.01) * found[f"{name}_grad"] for name in wrt}


if __name__ == "__main__":
    main()

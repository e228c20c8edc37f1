"""Digits, read by a small network that is trained here from random weights.

    python examples/training/digits.py                # with each optimizer
    python examples/training/digits.py adamw lion     # with these

Four fifths of 1 797 images of 8×8 pixels are trained on, the others tell how many are read right.
The images, `digits.npz`, are those that scikit-learn has: E. Alpaydin and C. Kaynak, Optical
Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998, doi:10.24432/C50P49, CC BY
4.0.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir

import whileback
from whileback import training
from whileback.training import schedules

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
digits (float[N,8,8] image, float[64,256] w0, float[256] b0, float[256,10] w1, float[10] b1)
    => (float[N,10] digit) {
    f = Flatten(image)
    x = Dropout(f)
    a = Gemm(x, w0, b0)
    r = Relu(a)
    h = Dropout(r)
    z = Gemm(h, w1, b1)
    digit = Softmax(z)
}"""
# The largest learning rate, after a warmup; it falls to 0 along a cosine.
RATES = {
    "sgd": 0.3,
    "adam": 0.003,
    "adamw": 0.003,
    "adamax": 0.01,
    "nadam": 0.003,
    "radam": 0.01,
    "adagrad": 0.06,
    "adadelta": 1.0,
    "rmsprop": 0.002,
    "lion": 0.0005,
    "adafactor": 0.02,
}
BATCH = 32


def model(seed: int = 0) -> ir.Model:
    """Return the network with random weights, of a variance of 2 over the number of inputs."""
    network, random = ir.from_onnx_text(MODEL), np.random.default_rng(seed)
    for value in list(network.graph.inputs)[1:]:
        shape = value.shape.numpy()
        spread = np.sqrt(2 / shape[0]) if len(shape) > 1 else 0
        weights = (random.normal(size=shape) * spread).astype(np.float32)
        value.const_value = ir.tensor(weights, name=value.name)
        network.graph.inputs.remove(value)
        network.graph.register_initializer(value)
    return network


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return images FLOAT[N,8,8] and labels INT64[N] to train on, and those held out."""
    arrays = np.load(Path(__file__).parent / "digits.npz")
    order = np.random.default_rng(0).permutation(len(arrays["labels"]))
    images = arrays["images"][order].astype(np.float32) / 16
    labels = arrays["labels"][order].astype(np.int64)
    held = len(order) // 5
    return images[held:], labels[held:], images[:held], labels[:held]


def batches(count: int, epochs: int) -> Iterator[np.ndarray]:
    """Yield the indices of batches, in another order in each epoch."""
    random = np.random.default_rng(1)
    for _ in range(epochs):
        order = random.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            yield order[start : start + BATCH]


def train(network: ir.Model, optimizer: str, epochs: int = 60) -> dict[str, np.ndarray]:
    """Return the parameters after some epochs."""
    images, labels, _, _ = data()
    step = training.step(network, "cross-entropy", optimizer, dropout=0.2)
    f, following, kept = whileback.compile(step), whileback.names(step), {}
    steps = epochs * (len(images) // BATCH)
    schedule = schedules.warmup(steps // 20, schedules.cosine(steps - steps // 20), start=0.1)
    for number, chosen in enumerate(batches(len(images), epochs)):
        rate = RATES[optimizer] * schedule(number)
        out = f(kept, image=images[chosen], label=labels[chosen], learning_rate=rate)
        kept = {name: out[new] for name, new in following.items()}
    return {name: kept[name] for name in training.interface(step).parameters}


def read_right(network: ir.Model, parameters: dict[str, np.ndarray]) -> float:
    """Return which part of the images held out is read right with some parameters."""
    _, _, images, labels = data()
    for name, array in parameters.items():
        network.graph.initializers[name].const_value = ir.tensor(array, name=name)
    digits = whileback.compile(network)(image=images)["digit"].argmax(1)
    return float((digits == labels).mean())


def main() -> None:
    """Print how well each optimizer does."""
    print("optimizer   read right   seconds")
    for optimizer in sys.argv[1:] or training.OPTIMIZERS:
        start, network = time.perf_counter(), model()
        part = read_right(network, train(network, optimizer))
        print(f"{optimizer:<10}  {part:10.2%}  {time.perf_counter() - start:8.1f}", flush=True)


if __name__ == "__main__":
    main()

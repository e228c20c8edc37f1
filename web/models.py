"""Makes the models of the page, and the points: `python web/models.py FOLDER`.

A throw with its gradient, and steps of training a network.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
from safetensors.numpy import save

import whileback
from whileback.cli import main

HERE = Path(__file__).parent
# What the page says of how its models were made: these commands make them.
COMMANDS = [
    "whileback gradient throw.onnx.txt --of loss --wrt velocity -o throw.grad.onnx",
    "whileback artifacts spirals.onnx --loss cross-entropy --optimizer adamw -o spirals",
]
TURNS = 2


def throw() -> ir.Model:
    """Return a ball's way through the air, as a loop, and how far from the target it lands."""
    return ir.from_onnx_text(_text("throw"))


def throw_in_double() -> ir.Model:
    """Return the same in 64 bits, for differences that are exact to many digits."""
    return ir.from_onnx_text(_text("throw").replace("float", "double"))


def spirals(seed: int = 0) -> ir.Model:
    """Return a network with random weights that runs one layer over and over."""
    network, random = ir.from_onnx_text(_text("spirals")), np.random.default_rng(seed)
    for value in list(network.graph.inputs)[2:]:
        shape = value.shape.numpy()
        spread = 1.5 * shape[0] ** -0.5 if len(shape) > 1 else 0.0
        weights = (random.normal(size=shape) * spread).astype(np.float32)
        value.const_value = ir.tensor(weights, name=value.name)
        network.graph.inputs.remove(value)
        network.graph.register_initializer(value)
    return network


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points FLOAT[N,2] on two spirals, and on which one each lies, INT64[N]."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % 2
    radius = 0.08 + 0.9 * np.sqrt(random.random(count))
    angle = (2 * TURNS * radius + label) * np.pi
    place = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    place += 0.015 * random.normal(size=place.shape)
    return place.astype(np.float32), label.astype(np.int64)


def write(folder: Path) -> None:
    """Write all models, and the points, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "throw.onnx.txt").write_text(_text("throw"), encoding="utf-8")
    whileback.save(throw_in_double(), folder / "throw.double.onnx", overwrite=True)
    whileback.save(spirals(), folder / "spirals.onnx", overwrite=True)
    with contextlib.chdir(folder):
        for command in COMMANDS:
            _run(command)
    data = dict(zip(("point", "label"), points(300, seed=0), strict=True))
    held = dict(zip(("held_point", "held_label"), points(150, seed=1), strict=True))
    (folder / "points.safetensors").write_bytes(save(data | held))


def _run(command: str) -> None:
    if status := main([*shlex.split(command)[1:], "--force"]):
        sys.exit(status)


def _text(name: str) -> str:
    return (HERE / "networks" / f"{name}.onnx.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

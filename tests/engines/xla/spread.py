"""Gradients and steps over several devices and processes; run as a program, it compares them.

`python -m tests.engines.xla.spread` over the devices of this process, and with the number of this
one of two processes and a port, over both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.engines.xla.programs import compiled, recurrence
from tests.judge import parse
from tests.trainer import models

from whileback import EngineError, compile, training
from whileback.engines.xla.spread import Spread

__all__ = ["main"]

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(8, 4)).astype(np.float32)
W = (DRAW.normal(size=(4, 4)) * 0.7).astype(np.float32)
ALONG, WHOLE = PartitionSpec("data"), PartitionSpec()

RECURRENCE = compiled(recurrence())


def loss(x: Any, w: Any, m: Any = 5) -> Any:
    return RECURRENCE(x=x, w=w, m=m)["loss"]


def loss_in_jax(x: Any, w: Any) -> Any:
    y = jax.lax.fori_loop(0, 5, lambda _, y: jnp.tanh(y @ w), x)
    return jnp.sum(y * y)


def compare(name: str, call: Callable[[], Any], want: Sequence[np.ndarray]) -> None:
    """Print the name if the parts that this process has of the gradients are the wanted ones."""
    for got, whole in zip(call(), want, strict=True):
        for part in got.addressable_shards:
            np.testing.assert_allclose(part.data, whole[part.index], 1e-4, 1e-5)
    print(name, flush=True)


def gradients(mesh: Mesh, spread: Callable[[np.ndarray, NamedSharding], Any], kind: str) -> None:
    """Compare gradients over a mesh, where nothing is traced and where all is."""
    want = [np.asarray(each) for each in jax.grad(loss_in_jax, (0, 1))(X, W)]
    x, w = spread(X, NamedSharding(mesh, ALONG)), spread(W, NamedSharding(mesh, WHOLE))
    m = spread(np.array(5, np.int32), NamedSharding(mesh, WHOLE))
    slopes = jax.grad(loss, (0, 1))
    with jax.set_mesh(mesh):
        compare(f"{kind} eager", lambda: slopes(x, w, m), want)
        compare(f"{kind} jit", lambda: jax.jit(slopes)(x, w, m), want)


def by_hand(mesh: Mesh) -> None:
    """Compare gradients in `jax.shard_map`, where JAX adds those of what all devices share."""
    want = [np.asarray(each) for each in jax.grad(loss_in_jax, (0, 1))(X, W)]
    local = jax.shard_map(
        jax.grad(loss, (0, 1)), mesh=mesh, in_specs=(ALONG, WHOLE), out_specs=(ALONG, WHOLE)
    )
    compare("shard_map", lambda: jax.jit(local)(X, W), want)


def training_steps(mesh: Mesh, name: str) -> None:
    """Compare steps of training over a mesh with those that ONNX Runtime makes of all rows."""
    step, evaluation = models.graphs("sgd")
    one = training.Trainer(step, evaluation=evaluation)
    many = training.Trainer(step, "xla", evaluation=evaluation, mesh=mesh)
    sharding = NamedSharding(mesh, ALONG)
    for rows in (8, 7, 8):
        batch = models.data(rows=rows, seed=rows)
        np.testing.assert_allclose(
            many.step(batch, 0.1)["loss"], one.step(batch, 0.1)["loss"], 1e-5
        )
    parts = {
        n: jax.make_array_from_callback(a.shape, sharding, a.__getitem__) for n, a in batch.items()
    }
    np.testing.assert_allclose(many.step(parts, 0.1)["loss"], one.step(batch, 0.1)["loss"], 1e-5)
    for key, array in one.state().items():
        np.testing.assert_allclose(many.state()[key], array, 1e-4, 1e-5)
    got, want = (trainer.evaluate(batch).outputs["p"] for trainer in (many, one))
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    print(f"{name} trainer", flush=True)


def placed(mesh: Mesh) -> None:
    """Print which part of a batch a device has: equal parts of rows, or all."""
    spread = Spread(mesh, models.graphs("sgd")[0].graph)
    for rows in (8, 7):
        arrays = spread.placed({**models.data(rows=rows), "b": np.zeros(4, np.float32)})
        shapes = {n: array.addressable_shards[0].data.shape for n, array in arrays.items()}
        print(f"{rows} rows", shapes, flush=True)


def drawing(mesh: Mesh) -> None:
    """Print why a model that draws by itself is refused over processes."""
    try:
        compile(parse("() => (float[2] y) { y = RandomUniform<shape = [2]> () }"), "xla", mesh=mesh)
    except EngineError as error:
        print(error, flush=True)


def main(arguments: Sequence[str]) -> None:
    """Compare; see the module."""
    if arguments:
        process, port = arguments
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
        mesh = Mesh(np.array(jax.devices()), ("data",))

        def mine(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
            return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])

        drawing(mesh)
        training_steps(mesh, f"process {process}")
        gradients(mesh, mine, f"process {process}")
        return
    meshes = {
        "auto": Mesh(np.array(jax.devices()), ("data",)),
        "explicit": jax.make_mesh((4,), ("data",)),
    }
    for kind, mesh in meshes.items():
        gradients(mesh, jax.device_put, kind)
    by_hand(meshes["auto"])
    training_steps(meshes["explicit"], "explicit")
    placed(meshes["explicit"])


if __name__ == "__main__":
    main(sys.argv[1:])

"""Arrays on many devices: programs are compiled as for one, and XLA spreads them.

JAX may make the sharding of an array part of its type: along explicit axes of a mesh, and inside
`jax.shard_map`. Inside the engine's programs, types have no such parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.core import take_current_trace
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = [
    "as_before",
    "at_once",
    "in_type_of",
    "is_spread",
    "is_typed",
    "own_types",
    "typed",
    "varying_alike",
    "without_types",
]


@contextmanager
def own_types() -> Iterator[None]:
    """Let types be the engine's inside: of up to 64 bits, and without a mesh."""
    with jax.enable_x64(True), jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        yield


class at_once:  # noqa: N801
    """Let what follows run now, even where JAX traces what is around; with the engine's types.

    A class, since every call of a model enters it, and a generator takes three times as long.
    """

    def __enter__(self) -> None:
        self._now: Any = take_current_trace()
        self._wide: Any = jax.enable_x64(True)
        self._now.__enter__()  # type: ignore[no-untyped-call]
        self._wide.__enter__()
        self._mesh: Any = None
        if jax.sharding.get_abstract_mesh().explicit_axes:
            self._mesh = jax.set_mesh(_automatic(jax.sharding.get_mesh()))
            self._mesh.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._mesh is not None:
            self._mesh.__exit__(*error)
        self._wide.__exit__(*error)
        self._now.__exit__(*error)


def _automatic(mesh: Mesh) -> Mesh:
    """Return the mesh with axes that types do not show."""
    return Mesh(mesh.devices, mesh.axis_names)


def without_types(arrays: Any) -> tuple[Any, Mesh | None]:
    """Return arrays whose shardings are not part of their types, and the mesh they were part of."""
    meshes = [leaf.sharding.mesh for leaf in jax.tree.leaves(arrays) if is_typed(leaf)]
    if not meshes:
        return arrays, None
    mesh = _automatic(meshes[0])
    return jax.tree.map(lambda leaf: _moved(leaf, mesh) if is_typed(leaf) else leaf, arrays), mesh


def as_before(arrays: Any, mesh: Mesh | None) -> Any:
    """Return arrays whose shardings along the axes of the mesh are part of their types."""
    if mesh is None:
        return arrays
    typed = Mesh(mesh.devices, mesh.axis_names, (AxisType.Explicit,) * len(mesh.axis_names))
    return jax.tree.map(lambda leaf: _moved(leaf, typed), arrays)


def is_spread(arrays: Iterable[Any]) -> bool:
    """Tell whether an array lies on a mesh; only such ones may have a sharding in their type."""
    return NamedSharding in [type(getattr(array, "sharding", None)) for array in arrays]


def is_typed(array: Any) -> bool:
    """Tell whether the sharding of an array is part of its type."""
    sharding = getattr(array, "sharding", None)
    return isinstance(sharding, NamedSharding) and bool(sharding.mesh.explicit_axes)


def _moved(array: jax.Array, mesh: Mesh) -> jax.Array:
    assert isinstance(array.sharding, NamedSharding)
    moved: jax.Array = jax.device_put(array, NamedSharding(mesh, array.sharding.spec))
    return moved


def varying_alike(arrays: Any) -> Any:
    """Return arrays that all vary over each axis of a `jax.shard_map` over which any does."""

    def axes(array: Any) -> frozenset[str]:
        return frozenset(jax.typeof(array).manual_axis_type.varying)

    every = frozenset[str]().union(*map(axes, jax.tree.leaves(arrays)))
    if not every:
        return arrays
    return jax.tree.map(
        lambda array: jax.lax.pcast(array, tuple(every - axes(array)), to="varying"), arrays
    )


def typed(output: Any, inputs: Sequence[ShapedArray]) -> ShapedArray:
    """Return the type of an output: it varies as the inputs do, and lies on all their devices."""
    if not inputs:
        return ShapedArray(output.shape, output.dtype)
    spec = PartitionSpec(*(None,) * len(output.shape))  # type: ignore[no-untyped-call]
    sharding = NamedSharding(inputs[0].sharding.mesh, spec)
    varies = inputs[0].manual_axis_type
    return ShapedArray(output.shape, output.dtype, sharding=sharding, manual_axis_type=varies)


def in_type_of(gradient: Any, argument: Any) -> Any:
    """Return a gradient in the type of the argument, as JAX wants it."""
    sharding = jax.typeof(argument).sharding
    if sharding.mesh.explicit_axes and jax.typeof(gradient).sharding != sharding:
        gradient = jax.sharding.reshard(gradient, sharding)  # type: ignore[no-untyped-call]
    return gradient.astype(argument.dtype)

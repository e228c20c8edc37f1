"""Places what a model is given on the devices of a mesh, for data that is worked on in parallel.

A program means the same wherever its arrays are: what is placed here decides which device computes
what, and XLA adds up gradients over devices. So results are those of one device on all the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx_ir as ir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from whileback.engines.xla.sharding import without_types
from whileback.errors import ArgumentError

__all__ = ["Spread"]


class Spread:
    """Rows of a batch go to the devices of a mesh in equal parts, all else is whole on each.

    Arrays of the batch are those whose first axis has no fixed size. Where their rows cannot be
    parted equally, each device has all of them.
    """

    def __init__(self, mesh: Any, graph: ir.Graph) -> None:
        """Raises: ArgumentError if `mesh` is no mesh of JAX's."""
        if not isinstance(mesh, Mesh):
            raise ArgumentError(
                f"mesh= is {type(mesh).__name__!r}; give a jax.sharding.Mesh, such as "
                "jax.make_mesh((jax.device_count(),), ('data',))."
            )
        # Axes that types do not show, as inside of the engine's programs.
        self._mesh = Mesh(mesh.devices, mesh.axis_names)
        self._parted = _with_rows(graph)

    @property
    def over_processes(self) -> bool:
        """Tell whether some devices belong to other processes."""
        return bool(self._mesh.is_multi_process)

    def placed(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return arrays by input on the devices; those that are spread already stay there."""
        plain, _ = without_types(dict(arrays))
        return {name: self._placed(name, array) for name, array in plain.items()}

    def whole(self, outputs: Sequence[Any]) -> list[Any]:
        """Let each device have all of what a program returns."""

        def everywhere(output: Any) -> Any:
            if not isinstance(output, jax.Array):
                return output
            return jax.lax.with_sharding_constraint(  # type: ignore[no-untyped-call]
                output, self._sharding()
            )

        return list(jax.tree.map(everywhere, list(outputs)))

    def _placed(self, name: str, array: Any) -> Any:
        if isinstance(array, jax.Array) and len(array.sharding.device_set) > 1:
            return array
        array = np.asarray(array)
        can_be_parted = name in self._parted and array.ndim and not len(array) % self._mesh.size
        sharding = self._sharding(self._mesh.axis_names) if can_be_parted else self._sharding()
        return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

    def _sharding(self, *axes: Any) -> NamedSharding:
        spec = PartitionSpec(*axes)  # type: ignore[no-untyped-call]
        return NamedSharding(self._mesh, spec)


def _with_rows(graph: ir.Graph) -> Collection[str]:
    """Return the inputs whose first axis has no fixed size."""
    return {
        str(value.name)
        for value in graph.inputs
        if value.shape and not isinstance(value.shape[0], int)
    }

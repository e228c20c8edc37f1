"""What an ONNX Runtime session carries: two sets of buffers that change places with every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whileback.errors import EngineError

__all__ = ["Buffers", "can_bind"]

Arrays = dict[str, np.ndarray]


class Buffers:
    """Carried values of static shapes, read from one set of buffers and written to the other.

    No run copies or allocates them, and none writes over what it reads: one that fails leaves
    what it began with.
    """

    def __init__(
        self,
        session: Any,
        wrap: Callable[[np.ndarray], Any],
        failed: Callable[[Exception], EngineError],
        following: Mapping[str, str],
        first: Arrays,
    ) -> None:
        self._session, self._wrap, self._failed = session, wrap, failed
        self._sets = [first, {name: np.empty_like(array) for name, array in first.items()}]
        carried = set(following.values())
        self._others = [out.name for out in session.get_outputs() if out.name not in carried]
        self._following = following
        self._without_default = {port.name for port in session.get_inputs()}
        self._bound: frozenset[str] = frozenset()
        self._bindings = self._new_bindings()

    def _new_bindings(self) -> list[Any]:
        """Return what binds the two sets, for the next run and for the one after it."""
        return [self._binding(*sets) for sets in (self._sets, self._sets[::-1])]

    def _binding(self, read: Arrays, written: Arrays) -> Any:
        binding = self._session.io_binding()
        for name, new in self._following.items():
            binding.bind_ortvalue_input(name, self._wrap(read[name]))
            binding.bind_ortvalue_output(new, self._wrap(written[name]))
        return binding

    def run(self, arguments: Arrays) -> Sequence[Any]:
        """Run with the other inputs; the buffers change places if that succeeds."""
        if self._bound != arguments.keys():
            # What was given before, and is left out now, has its default again.
            self._bound, self._bindings = frozenset(arguments), self._new_bindings()
        binding = self._bindings[0]
        try:
            self._run(binding, arguments)
        except Exception as error:
            raise self._failed(error) from error
        self._bindings.reverse()
        self._sets.reverse()
        # Buffers were bound first; `get_outputs` would make an object for each of them.
        results = binding.get_outputs_as_ortvaluevector()
        return [results[index].numpy() for index in range(len(self._sets[0]), len(results))]

    def _run(self, binding: Any, arguments: Arrays) -> None:
        # These live until the run is over: ONNX Runtime reads their memory.
        arrays = {name: np.asarray(array, order="C") for name, array in arguments.items()}
        for name, array in arrays.items():
            if name in self._without_default:
                binding.bind_cpu_input(name, array)
            else:
                # The faster way knows no inputs with defaults.
                binding.bind_ortvalue_input(name, self._wrap(array))
        for name in self._others:
            # Bound anew, since the last run may have given it another shape.
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)

    def read(self) -> Arrays:
        """Return the buffers that the next run reads."""
        return dict(self._sets[0])

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Copy other values into the buffers."""
        for name, array in values.items():
            np.copyto(self._sets[0][name], array)


def can_bind(session: Any, following: Mapping[str, str], first: Arrays) -> bool:
    """Tell whether all that goes in and out is tensors, and what is carried keeps its shape."""
    inputs = [*session.get_inputs(), *session.get_overridable_initializers()]
    ports = [*inputs, *session.get_outputs()]
    if any(not port.type.startswith("tensor(") or "string" in port.type for port in ports):
        return False
    outputs = {port.name: port for port in session.get_outputs()}
    types = {port.name: port.type for port in inputs}
    return len(set(following.values())) == len(following) and all(
        outputs[new].type == types[name] and tuple(outputs[new].shape) == first[name].shape
        for name, new in following.items()
    )

"""What a lowering is told of the node that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from whileback.engines.xla.facts import Trace
from whileback.engines.xla.linear import CountOf, Linear, is_number
from whileback.engines.xla.rows import Rows

__all__ = ["Operator", "as_tuple", "concrete", "is_static"]


@dataclass(frozen=True)
class Operator:
    """A node while it is lowered: its attributes, types, and what may be taken for granted.

    `xp` is NumPy where all operands are known while compiling and the lowering folds, else JAX.
    """

    node: ir.Node
    trace: Trace
    xp: ModuleType = jnp

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute."""
        attribute = self.node.attributes.get(name)
        return attribute.as_int() if attribute is not None else default  # type: ignore[return-value]

    def number(self, name: str, default: float | None = None) -> float:
        """Return a float attribute."""
        attribute = self.node.attributes.get(name)
        return attribute.as_float() if attribute is not None else default  # type: ignore[return-value]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string attribute."""
        attribute = self.node.attributes.get(name)
        return attribute.as_string() if attribute is not None else default  # type: ignore[return-value]

    def integers(self, name: str, default: Any = None) -> Any:
        """Return a list of integers, as a tuple."""
        attribute = self.node.attributes.get(name)
        return tuple(attribute.as_ints()) if attribute is not None else default

    def numbers(self, name: str, default: Any = None) -> Any:
        """Return a list of floats, as a tuple."""
        attribute = self.node.attributes.get(name)
        return tuple(attribute.as_floats()) if attribute is not None else default

    def texts(self, name: str, default: Any = None) -> Any:
        """Return a list of strings, as a tuple."""
        attribute = self.node.attributes.get(name)
        return tuple(attribute.as_strings()) if attribute is not None else default

    def has(self, output: int) -> bool:
        """Tell whether the output is asked for."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output].name)

    def dtype(self, output: int = 0) -> np.dtype[Any]:
        """Return the type of an output's elements."""
        dtype = self.node.outputs[output].dtype
        assert dtype is not None, self.node
        return np.dtype(dtype.numpy())

    def static(self, value: Any, what: str = "") -> np.ndarray:
        """Return an operand's value, on which shapes depend, as an array of NumPy.

        `what` tells apart what one node asks for; the operand's name is a good choice.
        """
        return self.trace.static(f"{self.node.name}/{what}", value)

    def elements(self, numbers: Any) -> np.ndarray:
        """Return what is known of each element of a small array of integers, see `linear`."""
        return self.trace.numbers.of(numbers)

    def sizes(self, shape: Any) -> tuple[tuple[int, ...], Rows | None]:
        """Return the sizes of a result; one of as many rows as a stack has room for them."""
        if not is_static(shape) and is_number(shape) and shape.size:
            first, *others = self.elements(shape)
            term = first.term if isinstance(first, Linear) else None
            if isinstance(term, CountOf) and not any(isinstance(n, Linear) for n in others):
                return (term.rows.capacity, *map(int, others)), term.rows
        return tuple(int(size) for size in self.static(shape, "shape")), None

    def stack_of(self, count: Any) -> Rows | None:
        """Return a stack inside a loop that has as many rows as a count that only the run knows.

        That the stack before has so many is guessed: a run in which it is wrong reports so. Where
        there is none, or it has others, the numbers of the rows are a stack of their own.
        """
        trace, name = self.trace, str(self.node.name)
        room = trace.capacity(name)
        if trace.can_end or room is None:
            return None
        stack = trace.latest
        what = f"{name} has as many elements as the stack before it"
        if stack is not None and trace.assumed(what, stack.count == count):
            return stack
        count = jnp.maximum(count, 0)
        trace.needed(name, count)
        return Rows(jnp.arange(room), count)


def is_static(value: Any) -> bool:
    """Tell whether an operand is known while compiling, or left out."""
    return value is None or isinstance(value, np.ndarray)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return one result, or several, as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def concrete(result: Any) -> Any:
    """Return NumPy's scalars as arrays; all else as it is."""
    return np.asarray(result) if isinstance(result, np.generic) else result

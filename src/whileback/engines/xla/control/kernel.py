"""Loops of little work become one function of machine code where XLA compiles for a CPU.

There, XLA runs a program operation by operation, and spends about 50 ns on each. It can also make
one function of a call that it may not inline, loops inside included; of its own accord it does so
for loops that touch less than a kilobyte. Such a function runs on one core, makes products by plain
loops, and calls no library. So only loops that need none, and whose trips are too small to be
spread over cores, become one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun, subjaxprs

__all__ = ["PRIMITIVES", "as_kernel", "is_kernel", "trips_at_once"]

State = TypeVar("State")

# The mark is an inner matter of XLA's: a newer one has to be tried first.
_TRIED = ((0, 10),)

# As many operations a trip may make, as many elements each of them, and as many numbers a matrix
# have that is multiplied by a vector. Measured: y ← tanh(y·w) takes 0.54 times what it takes
# operation by operation for 64 numbers, 0.73 for 128, 0.87 for 256, and 0.90 for 512.
_OPERATIONS = 500
_ELEMENTS = 4096
_MATRIX = 1 << 18

# Of so few operations, four trips are made at once: 54 ns in place of 70 for 4 numbers.
_FEW = 30

PRIMITIVES = frozenset(
    """
    abs add and asin asinh acos acosh atan atan2 atanh broadcast_in_dim cbrt ceil clamp concatenate
    cond convert_element_type copy cos cosh div dot_general dynamic_slice dynamic_update_slice eq
    erf erfc exp exp2 expm1 floor ge gt integer_pow iota is_finite jit le log log1p logistic lt max
    min mul ne neg not optimization_barrier or pad pow reduce_and reduce_max reduce_min reduce_or
    reduce_sum rem reshape rev round rsqrt select_n sign sin sinh slice split sqrt square squeeze
    stop_gradient sub tan tanh transpose while xla_metadata_value xor
    """.split()
)
_CONTROL = ("cond", "jit", "while")


def as_kernel(run: Callable[[State], State], start: State) -> State:
    """Return what a function computes, which XLA is to make one function of machine code.

    XLA fails where such a function has an operand without a use. So it returns all of them, and
    barriers hide from JAX and XLA that nobody wants these, and which ones are constants.
    """
    program, types = jax.make_jaxpr(run, return_shape=True)(start)
    count = len(program.consts)

    def kernel(operands: list[jax.Array]) -> list[jax.Array]:
        inner = ClosedJaxpr(program.jaxpr, operands[:count])
        return _barrier([*jaxpr_as_fun(inner)(*operands[count:]), *operands])

    first, *others = jax.jit(kernel)(_barrier([*program.consts, *jax.tree.leaves(start)]))
    # This marks the operation that a value comes from, which is the call.
    mark: Any = set_xla_metadata
    first = mark(first, xla_cpu_small_call="true", inlineable="false")
    results = _barrier([first, *others])[: len(program.out_avals)]
    end: State = jax.tree.unflatten(jax.tree.structure(types), results)
    return end


def _barrier(arrays: list[Any]) -> list[jax.Array]:
    return list(jax.lax.optimization_barrier(arrays))  # type: ignore[no-untyped-call]


def is_kernel(trip: ClosedJaxpr) -> bool:
    """Tell whether a loop of such trips is better off as one function of machine code."""
    operations = list(_operations(trip.jaxpr))
    return (
        _is_alone()
        and len(operations) <= _OPERATIONS
        and all(_size(each) <= _ELEMENTS for each in trip.in_avals)
        and all(map(_is_small, operations))
    )


def trips_at_once(trip: ClosedJaxpr) -> int:
    """Return how many trips to make without asking in between: that saves copies of the state."""
    operations = list(_operations(trip.jaxpr))
    is_straight = all(each.primitive.name not in _CONTROL for each in operations)
    return 4 if is_straight and len(operations) <= _FEW else 1


@cache
def _is_alone() -> bool:
    """Tell whether programs run on a CPU, and nothing is spread over several devices."""
    is_tried = jax.__version_info__[:2] in _TRIED
    return is_tried and jax.default_backend() == "cpu" and jax.device_count() == 1


def _operations(program: Jaxpr) -> Iterator[JaxprEqn]:
    yield from program.eqns
    for inner in subjaxprs(program):
        yield from _operations(inner)


def _is_small(operation: JaxprEqn) -> bool:
    name = operation.primitive.name
    if name == "dot_general":
        return _is_small_product(operation)
    # What is updated is updated in place; what is controlled is looked at by itself.
    sizes = [_size(each.aval) for each in operation.outvars]
    is_in_place = name in ("dynamic_update_slice", *_CONTROL)
    return name in PRIMITIVES and (is_in_place or max(sizes, default=0) <= _ELEMENTS)


def _size(kind: Any) -> int:
    """Return how many elements an array of a type has."""
    return math.prod(kind.shape)


def _is_small_product(operation: JaxprEqn) -> bool:
    """Tell whether this is the product of a small matrix and a vector: others need a library."""
    (contracted, batch) = operation.params["dimension_numbers"]
    kinds: list[Any] = [each.aval for each in operation.invars]
    shapes = [kind.shape for kind in kinds]
    free = [
        math.prod(size for axis, size in enumerate(shape) if axis not in axes)
        for shape, axes in zip(shapes, contracted, strict=True)
    ]
    return not any(batch) and 1 in free and max(map(math.prod, shapes)) <= _MATRIX

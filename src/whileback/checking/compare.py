"""Two comparisons of a gradient, so that each can be tight.

The formulas: the float64 twin of the gradient model against finite differences. The arithmetic:
the gradient model as it is against that twin, within what rounding explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.checking.point import Slope, place
from whileback.checking.report import Comparison
from whileback.checking.truth import compile_exactly, widened
from whileback.engines import Compiled
from whileback.errors import EngineError

__all__ = [
    "compare_arithmetic",
    "compare_formulas",
    "draw_moves",
    "exact_gradients",
    "rounding",
    "rounding_of_constants",
    "run_moved",
]

# How much of a gradient's largest element is left to the formulas, and to rounding by type:
# a few hundred units of FLOAT's precision, 40 of FLOAT16's, 25 of BFLOAT16's.
_FORMULA = 1e-6
_ROUNDING = {"float64": 1e-9, "float32": 5e-5, "float16": 2e-2, "bfloat16": 1e-1}
# The numbers that lie next to zero, between which smaller ones are rounded.
_SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_PRECISION = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def exact_gradients(
    gradient_model: ir.Model, feeds: Mapping[str, Any], rng: np.random.Generator
) -> list[dict[str, Any]] | None:
    """Return the outputs in float64, and again for inputs that are off by one rounding.

    Their difference shows how much of an error in the gradient is due to the type of the inputs.
    These are off to both sides: a kink that is so close, such as a pixel at which rounding puts a
    point, is crossed on one of them. None if no engine runs the float64 twin.
    """
    wide, moves = widened(feeds), draw_moves(feeds, rng)
    others = {name: -move for name, move in moves.items()}
    try:
        compiled = compile_exactly(gradient_model, feeds)
        exact = compiled(wide)
    except EngineError:
        return None
    return [exact, *(run_moved(compiled, wide, each, exact) for each in (moves, others))]


def draw_moves(feeds: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return by what part of itself each float is off by one rounding of its type."""
    kinds = {name: value.dtype.name for name, value in feeds.items() if not _is_list(value)}
    return {
        name: np.copysign(_PRECISION[kind], rng.uniform(-1, 1, feeds[name].shape))
        for name, kind in kinds.items()
        if kind in _PRECISION
    }


def run_moved(
    compiled: Compiled,
    feeds: Mapping[str, Any],
    moves: Mapping[str, np.ndarray],
    unmoved: dict[str, Any],
) -> dict[str, Any]:
    """Return the outputs for inputs that are off by some part of themselves.

    A float may say a size, as the `depth` of `OneHot` does, and nothing fits where that is off:
    then whole numbers stay, and if still nothing fits, the outputs are those for the inputs as
    they are, and show no rounding.
    """
    for whole_stay in (False, True):
        others = {
            name: _moved(value, moves[name], whole_stay) if name in moves else value
            for name, value in feeds.items()
        }
        try:
            outputs = compiled(others)
        except EngineError:
            continue
        if all(_sizes(outputs[name]) == _sizes(value) for name, value in unmoved.items()):
            return outputs
    return unmoved


def _sizes(value: Any) -> Any:
    return [np.shape(item) for item in value] if _is_list(value) else np.shape(value)


def _moved(value: np.ndarray, move: np.ndarray, whole_stay: bool) -> np.ndarray:
    wide = value.astype(np.float64)
    off = wide * (1 + move)
    other: np.ndarray = np.where(wide == np.round(wide), wide, off) if whole_stay else off
    return other.astype(value.dtype)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def compare_formulas(
    slopes: Sequence[Slope], gradient: np.ndarray, allowed: float = _FORMULA
) -> list[Comparison]:
    """Compare a gradient with the slopes that finite differences gave.

    A slope that is not known to one percent of the largest one counts as a kink.
    """
    numbers = [_along(gradient, slope.direction) for slope in slopes]
    known = [abs(slope.derivative.value) for slope in slopes if not slope.derivative.kink]
    scale = max((size for size in (*map(abs, numbers), *known) if np.isfinite(size)), default=0.0)
    return [
        Comparison(
            where=slope.where,
            got=number,
            want=slope.derivative.value,
            tolerance=allowed * scale + 4 * slope.derivative.error,
            kink=slope.derivative.kink or slope.derivative.error > 0.01 * max(scale, 1e-6),
            left=slope.derivative.left,
            right=slope.derivative.right,
        )
        for slope, number in zip(slopes, numbers, strict=True)
    ]


def _along(gradient: np.ndarray, direction: np.ndarray) -> float:
    """Return their product; an element that is not a number spoils no direction without it."""
    used = direction != 0
    return float(np.dot(gradient[used], direction[used]))


def compare_arithmetic(
    own: np.ndarray,
    exact: np.ndarray,
    moved: Sequence[np.ndarray],
    again: np.ndarray | None = None,
    steepness: float = 0.0,
) -> Comparison:
    """Compare a gradient with its exact values, where it is farthest off.

    Args:
        own: the gradient in its own type.
        exact: the same in float64.
        moved: in float64, for inputs that are off by one rounding, to one side and the other.
        again: in its own type, for inputs that are off by one rounding.
        steepness: with `again`, a slope of which one rounding is let pass.
    """
    if not own.size:
        return Comparison("", 0.0, 0.0, 0.0)
    narrow = np.asarray(own, np.float64)
    same = (narrow == exact) | (np.isnan(narrow) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.nan_to_num(np.abs(narrow - exact), nan=np.inf))
        spread = np.fmax.reduce([np.abs(each - exact) for each in moved])
        if again is not None:
            spread = np.fmax(spread, np.abs(np.asarray(again, np.float64) - narrow))
            spread = spread + steepness * _PRECISION.get(own.dtype.name, 0.0)
        noise = np.nan_to_num(spread, nan=0.0, posinf=0.0)
    index = np.unravel_index(int(np.argmax(off)), off.shape)
    scale = np.max(np.abs(np.nan_to_num(exact, posinf=0.0, neginf=0.0)))
    allowed = rounding(own.dtype) * float(scale) + _SMALLEST.get(own.dtype.name, 0.0)
    return Comparison(
        where=place(index),
        got=float(narrow[index]),
        want=float(exact[index]),
        tolerance=allowed + 6 * float(np.max(noise)),
    )


def rounding_of_constants(dtype: np.dtype[Any]) -> float:
    """Return what part may be lost since the gradient's constants are numbers of its type.

    The slope of a mean over 3 elements is 1/3; a FLOAT16 that stands for it is off by 1e-4 of it,
    in the float64 twin as well.
    """
    return max(_FORMULA, _PRECISION.get(dtype.name, 0.0))


def rounding(dtype: np.dtype[Any]) -> float:
    """Return what part of a gradient's largest element may be lost to rounding."""
    return _ROUNDING[dtype.name]

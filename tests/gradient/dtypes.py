"""Judges gradients in other types than FLOAT: `python -m tests.gradient.dtypes [NAME]`.

The models are those that ONNX tests its operators with. A gradient must have the type of what it
belongs to, and be what float64 makes of the same numbers, up to rounding. That the formulas are
right is judged elsewhere, against finite differences: see `tests.corpus`.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from tests.corpus.arguments import size_of
from tests.corpus.cases import Case, cases
from tests.corpus.running import NoEngineError, start
from tests.gradient.retyped import NotAllowedError, retyped

import whileback
from whileback.checking.check import cotangent_inputs
from whileback.checking.compare import exact_gradients
from whileback.checking.truth import compile_exactly, widened
from whileback.errors import NoGradientError, WhilebackWarning
from whileback.graph.randomness import draws

__all__ = ["DTYPES", "UNIT", "allowed", "judge", "models", "vjp"]

DTYPES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)
# One rounding of a number, as a part of it; for DOUBLE a part in which no FLOAT can hide.
UNIT = {
    ir.DataType.FLOAT16: 2.0**-11,
    ir.DataType.BFLOAT16: 2.0**-8,
    ir.DataType.FLOAT: 2.0**-24,
    ir.DataType.DOUBLE: 2.0**-44,
}
# How many roundings of the largest element are let pass, and so many times what one rounding of
# the arguments changes. Attention takes 12, where NumPy rounds to BFLOAT16 after every operator.
_ROUNDINGS = 16
# What is not finer in DOUBLE than in FLOAT: ONNX's definition rounds a scale, the points of images
# are FLOAT, and where ONNX Runtime has no kernel NumPy has functions of FLOAT only.
_IN_FLOAT = frozenset("Attention DFT Erf FlexAttention Gelu Resize Upsample".split())
# What NumPy's engine has wrong: indices of maxima, and samples at corners of smaller images.
_WRONG_IN_NUMPY = (
    "test_maxpool_",
    "resize_downsample_scales_cubic_align_corners",
    "resize_downsample_scales_linear_align_corners",
)


def models() -> dict[str, Case]:
    """Return the models with a FLOAT input, without those that are definitions of others."""
    return {
        name: case
        for name, case in cases().items()
        if "_expanded" not in name
        and not any(map(draws, case.model.graph))
        and any(
            v.dtype == ir.DataType.FLOAT and v.name in case.wrt for v in case.model.graph.inputs
        )
    }


def vjp(case: Case) -> ir.Model:
    """Return the gradient model of a case, which may round."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhilebackWarning)
        try:
            return whileback.vjp(case.model, of=case.of, wrt=case.wrt)
        except NoGradientError:
            options = {"quantized": "straight-through"}
            return whileback.vjp(case.model, of=case.of, wrt=case.wrt, **options)


def allowed(
    dtype: ir.DataType,
    exact: np.ndarray,
    moved: Sequence[np.ndarray],
    steepness: float = 0.0,
    coarse: bool = False,
) -> float:
    """Return how far a gradient may be off.

    Args:
        dtype: the type of the gradient.
        exact: what it is in float64.
        moved: the same for arguments that are off by one rounding.
        steepness: a slope of which one rounding is let pass, since saturated values hide it.
        coarse: whether DOUBLE is as coarse as FLOAT here.
    """
    unit = 2.0**-24 if coarse and dtype == ir.DataType.DOUBLE else UNIT[dtype]
    smallest = float(ml_dtypes.finfo(dtype.numpy()).smallest_subnormal)
    with np.errstate(invalid="ignore"):
        noise = max((_largest(each - exact) for each in moved), default=0.0)
    return _ROUNDINGS * (unit * _largest(exact) + noise + smallest) + unit * steepness


def _largest(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def judge(case: Case, dtype: ir.DataType) -> tuple[str, str]:
    """Return what becomes of a case's gradients in a type, and why."""
    try:
        own = retyped(case, dtype)
        forward, in_numpy = start(own.model, own.feeds)
    except NotAllowedError as error:
        return "not allowed", str(error)
    except NoEngineError as error:
        return "no engine", str(error)
    if in_numpy and any(part in case.name for part in _WRONG_IN_NUMPY):
        return "no engine", in_numpy
    results = forward(own.feeds)
    if _overflows(own, results):
        return "overflows", ""
    problem = _problem(case, own, results)
    return ("wrong", problem) if problem else ("passed", "")


def _overflows(case: Case, results: dict[str, Any]) -> bool:
    """Tell whether a result is infinite in this type, and is not in float64."""
    infinite = {name: np.isinf(results[name].astype(np.float64)) for name in case.of}
    if not any(each.any() for each in infinite.values()):
        return False
    exact = compile_exactly(case.model, case.feeds)(widened(case.feeds))
    return any((each & np.isfinite(exact[name])).any() for name, each in infinite.items())


def _problem(case: Case, own: Case, results: dict[str, Any]) -> str:
    """Return what is wrong with the gradients of a case in another type, or nothing."""
    gradient_model = vjp(own)
    problem = _problem_of_types(own, gradient_model)
    if problem:
        return problem
    rng = np.random.default_rng(0)
    odd = {name: (2 * rng.integers(-32, 32, np.shape(results[name])) + 1) / 32 for name in own.of}
    seeds = cotangent_inputs(own.model, gradient_model)
    arguments = own.feeds | {
        str(seed.name): dY.astype(seed.dtype.numpy())
        for seed, dY in zip(seeds, odd.values(), strict=True)
    }
    try:
        run, _ = start(gradient_model, arguments)
    except NoEngineError as error:
        return f"The model runs, its gradient does not: {error}"
    gradients = list(run(arguments).values())[-len(own.wrt) :]
    exact = exact_gradients(vjp(_finest(case)), arguments, rng)
    assert exact is not None, case.name
    change = sum(float(np.sum(np.abs(results[n].astype(np.float64) * odd[n]))) for n in own.of)
    for name, got, *expected in zip(own.wrt, gradients, *map(_last(own), exact), strict=True):
        steepness = change / size_of(own.feeds[name])
        coarse = case.operator in _IN_FLOAT
        limit = allowed(
            ir.DataType.from_numpy(got.dtype), expected[0], expected[1:], steepness, coarse
        )
        off = _distance(got, expected[0])
        if off > limit:
            return f"The gradient of {name} is off by {off:.3g}, and {limit:.3g} is allowed."
    return ""


def _finest(case: Case) -> Case:
    """Return the case in DOUBLE, where ONNX has that."""
    try:
        return retyped(case, ir.DataType.DOUBLE)
    except NotAllowedError:
        return case


def _last(case: Case) -> Any:
    return lambda outputs: list(outputs.values())[-len(case.wrt) :]


def _distance(got: np.ndarray, exact: np.ndarray) -> float:
    """Return how far they are apart, except where the type has no such large numbers."""
    if got.shape != exact.shape:
        return np.inf
    wide = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (wide == exact.astype(got.dtype)) | (np.isnan(wide) & np.isnan(exact))
        off = np.where(same, 0.0, np.nan_to_num(np.abs(wide - exact), nan=np.inf))
    return float(np.max(off, initial=0.0))


def _problem_of_types(case: Case, gradient_model: ir.Model) -> str:
    onnx.checker.check_model(ir.to_proto(gradient_model), full_check=True)
    types = {value.name: value.dtype for value in case.model.graph.inputs}
    outputs = list(gradient_model.graph.outputs)[-len(case.wrt) :]
    return "; ".join(
        f"The gradient of {name} is {output.dtype}, not {types[name]}."
        for name, output in zip(case.wrt, outputs, strict=True)
        if output.dtype != types[name]
    )


def main() -> int:
    """Judge all models, or those whose names contain the argument; tell what is wrong."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [case for name, case in models().items() if wanted in name]
    wrong = 0
    for dtype in DTYPES:
        counts, operators = Counter[str](), dict[str, set[str]]()
        for case in chosen:
            status, detail = judge(case, dtype)
            counts[status] += 1
            operators.setdefault(status, set()).add(case.operator)
            if status in ("wrong", "no engine"):
                print(f"{dtype.name}, {case.name}, {status}: {detail}", flush=True)
        wrong += counts["wrong"]
        listed = (f"{n} {each} ({len(operators[each])} operators)" for each, n in counts.items())
        print(f"{dtype.name}: {', '.join(listed)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Judges straight-through gradients: of a model that does not round, and where the real one is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from tests.judge import Arrays, assert_gradient_model, parse

from whileback.checking.check import cotangent_inputs
from whileback.checking.unrounded import without_rounding
from whileback.engines import compile
from whileback.errors import NoGradientError, WhilebackWarning
from whileback.gradient import vjp
from whileback.graph.scopes import definitions

OPTION = "straight-through"


def judge(
    model: ir.Model | str,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any],
    *,
    opset: int = 21,
    rounds: bool = True,
    kinks: bool = False,
) -> Arrays:
    """Judge a model's gradients of two orders, and return those that it has where it rounds.

    Finite differences judge it without its rounding. With it, it must give the same outputs as
    before, and without the option, if it `rounds`, it must be refused.
    """
    model = parse(model, opset) if isinstance(model, str) else model
    if rounds:
        with pytest.raises(NoGradientError, match='Say quantized="straight-through"'):
            vjp(model, of, wrt)
    feeds = {name: np.asarray(value) for name, value in inputs.items()}
    first = vjp(model, of, wrt, quantized=OPTION)
    plain = without_rounding(model), without_rounding(first)
    arguments, _ = assert_gradient_model(*plain, of, wrt, feeds, kinks=kinks)
    results = compile(first, optimization="disabled")(arguments)
    for name, want in compile(model, optimization="disabled")(feeds).items():
        np.testing.assert_array_equal(results[name], want, err_msg=name)
    _judge_second_order(first, model, wrt, arguments, kinks)
    optimized = list(compile(first)(arguments).values())[-len(wrt) :]
    return dict(zip(wrt, optimized, strict=True))


def _judge_second_order(
    first: ir.Model, model: ir.Model, wrt: Sequence[str], arguments: Arrays, kinks: bool
) -> None:
    seeds = [str(value.name) for value in cotangent_inputs(model, first)]
    known = {value.name for value in definitions(first.graph)}
    again = [name for name in wrt if name in known] + seeds
    of = [str(value.name) for value in first.graph.outputs][-len(wrt) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhilebackWarning)
        second = vjp(first, of, again, quantized=OPTION)
    plain = without_rounding(first), without_rounding(second)
    feeds, _ = assert_gradient_model(*plain, of, again, arguments, kinks=kinks)
    for value in compile(second)(feeds).values():
        assert value.dtype.kind not in "f" or np.isfinite(value).all()


def gradients(
    model: ir.Model | str, inputs: Mapping[str, Any], cotangent: Any, *, opset: int = 21
) -> Arrays:
    """Return the straight-through gradients of `y` with respect to the float inputs."""
    model = parse(model, opset) if isinstance(model, str) else model
    feeds = {name: np.asarray(value) for name, value in inputs.items()}
    wrt = [str(v.name) for v in model.graph.inputs if v.dtype and v.dtype.is_floating_point()]
    compiled = compile(vjp(model, "y", wrt, quantized=OPTION))
    results = compiled({**feeds, "y_grad": np.asarray(cotangent)})
    return {name: results[f"{name}_grad"] for name in wrt}

"""One call that judges a gradient from all sides; every test of a rule uses it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from whileback.checking.check import cotangent_feeds, cotangent_inputs, expectations
from whileback.checking.compare import rounding
from whileback.checking.point import Point
from whileback.checking.report import Report
from whileback.engines import compile
from whileback.errors import WhilebackWarning
from whileback.gradient import registry
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.rewrite import LoopOptions
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.transform import names
from whileback.graph.scopes import definitions

HEADER = '<ir_version: 10, opset_import: ["" : {opset}]> model '
LEVELS = ("disabled", "basic", "all")

Arrays = dict[str, np.ndarray]

# The last gradients that were asked for, with the rules as they were then.
REMEMBERED = 32
_ANSWERS: dict[tuple[Any, ...], ir.Model] = {}


def parse(text: str, opset: int = 21) -> ir.Model:
    """Return the model of a text, whose header may be left out: `(float x) => (float y) { … }`."""
    if not text.lstrip().startswith("<"):
        text = HEADER.format(opset=opset) + text
    return ir.from_onnx_text(text)


def assert_gradient(
    model: ir.Model | str,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    second_order: bool = False,
    kinks: bool = False,
    seed: int = 0,
    elements: int = 64,
    directions: int = 3,
    engine: str = "onnxruntime",
    memory: Memory = None,
    implicit: ImplicitLoops = None,
) -> Arrays:
    """Assert that `whileback.gradient.vjp` is right for a model, and return the gradients.

    They must agree with finite differences of the float64 twin for cotangents that are not
    uniform: to 1e-6 of the largest element in float64, and to what rounding explains (5e-5 of it
    for FLOAT) in their own type, at three levels of optimization. Shapes, types, names and order
    must be as promised, the model must stay as it is and keep its outputs, the checker must pass.

    Args:
        model: a model, or its text.
        of: the values to differentiate.
        wrt: the values with respect to which.
        inputs: values for some of the inputs; the others are random.
        opset: for a text without a header.
        second_order: judge the gradients of the gradients, and of the cotangents, as well.
        kinks: whether some of the elements may be where the model is not smooth.
        seed, elements, directions: as for `whileback.check`.
        engine: runs the model itself.
        memory: the strategy for its loops, and for those of its gradient.
        implicit: loops of the model that iterate to a solution.
    """
    model = parse(model, opset) if isinstance(model, str) else model
    options = {"kinks": kinks, "seed": seed, "elements": elements, "directions": directions}
    options["engine"] = engine
    gradient_model, arguments, gradients = _assert_order(
        model, of, wrt, inputs or {}, LoopOptions(memory, implicit=implicit), **options
    )
    if second_order:
        _assert_second_order(model, gradient_model, wrt, arguments, LoopOptions(memory), **options)
    return gradients


def assert_gradient_model(
    model: ir.Model,
    gradient_model: ir.Model,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any],
    *,
    kinks: bool = False,
    seed: int = 0,
    elements: int = 64,
    directions: int = 3,
    engine: str = "onnxruntime",
) -> tuple[Arrays, Arrays]:
    """Assert that a gradient model with cotangents as inputs is right for a model.

    Returns its arguments and the gradients.
    """
    _assert_form(model, gradient_model, of, wrt)
    rng = np.random.default_rng(seed)
    point = Point(model, of, wrt, inputs, rng)
    arguments = point.feeds | cotangent_feeds(cotangent_inputs(model, gradient_model), point)
    expected = expectations(point, gradient_model, arguments, rng, elements, directions)
    single = {"threads": 1} if engine == "onnxruntime" else {}
    forward = compile(model, engine, **single)(point.feeds)
    gradients: Arrays = {}
    for level in LEVELS:
        own = compile(gradient_model, optimization=level, threads=1)(arguments)
        _assert_same_forward(forward, own)
        gradients = dict(zip(wrt, list(own.values())[-len(wrt) :], strict=True))
        for name, gradient in gradients.items():
            assert gradient.shape == point.wrt[name].shape, f"{name} at level {level!r}"
        report = Report(tuple(each.judge(gradients[each.name]) for each in expected))
        assert not any(each.wrong for each in report.findings), f"at level {level!r}:\n{report}"
        assert kinks or all(each.verdict in ("ok", "zero") for each in report.findings), str(report)
    return arguments, gradients


def _assert_order(
    model: ir.Model,
    of: Sequence[str],
    wrt: Sequence[str],
    inputs: Mapping[str, Any],
    loops: LoopOptions,
    **options: Any,
) -> tuple[ir.Model, Arrays, Arrays]:
    gradient_model = _gradient_model(model, of, wrt, loops)
    arguments, gradients = assert_gradient_model(model, gradient_model, of, wrt, inputs, **options)
    return gradient_model, arguments, gradients


def _gradient_model(
    model: ir.Model, of: Sequence[str], wrt: Sequence[str], loops: LoopOptions
) -> ir.Model:
    """Return the model of the gradients; it is made once for the points that a test judges it at.

    Making it is what takes longest where loops stand in loops; numbers of trips are such points.
    """
    from whileback.gradient import vjp

    before = _bytes(model)
    question = before, tuple(of), tuple(wrt), repr(loops), *registry._ENTRIES.values()
    if question not in _ANSWERS:
        made = vjp(model, of=list(of), wrt=list(wrt), **vars(loops))
        assert _bytes(model) == before, "model was modified"
        if len(_ANSWERS) >= REMEMBERED:
            del _ANSWERS[next(iter(_ANSWERS))]
        _ANSWERS[question] = made
    return _ANSWERS[question]


def _bytes(model: ir.Model) -> bytes:
    return bytes(ir.to_proto(model).SerializeToString(deterministic=True))


def _assert_second_order(
    model: ir.Model,
    gradient_model: ir.Model,
    wrt: Sequence[str],
    arguments: Mapping[str, Any],
    loops: LoopOptions,
    **options: Any,
) -> None:
    known = {value.name for value in definitions(gradient_model.graph)}
    again = [name for name in wrt if name in known]
    again += [name for name in _seeds(model, gradient_model) if name not in again]
    first = _outputs(gradient_model)[-len(wrt) :]
    with warnings.catch_warnings():
        # Gradients of a linear model depend on nothing but the cotangents.
        warnings.simplefilter("ignore", WhilebackWarning)
        _assert_order(gradient_model, first, again, arguments, loops, **options)


def _assert_form(
    model: ir.Model, gradient_model: ir.Model, of: Sequence[str], wrt: Sequence[str]
) -> None:
    """Check names, order and types of inputs and outputs, and let the checker have a look."""
    own = _outputs(model)
    forward = [*own, *(name for name in dict.fromkeys(of) if name not in own)]
    outputs = _outputs(gradient_model)
    assert outputs[: len(forward)] == forward, f"{outputs} does not start with {forward}"
    known = names(gradient_model)
    forward += [name for key, name in known.items() if key.endswith("_residual")]
    assert len(outputs) == len(forward) + len(wrt), f"{outputs} for {wrt}"
    types = {value.name: value.dtype for value in definitions(model.graph)}
    for name, value in zip(wrt, gradient_model.graph.outputs[len(forward) :], strict=True):
        assert value.name.startswith(f"{name}_grad"), value.name
        assert types[name] is None or value.dtype == types[name], value
    for name, seed in zip(of, _seeds(model, gradient_model), strict=True):
        assert seed.startswith(f"{name}_grad"), seed
    onnx.checker.check_model(ir.to_proto(gradient_model), full_check=True)


def _outputs(model: ir.Model) -> list[str]:
    return [str(value.name) for value in model.graph.outputs]


def _seeds(model: ir.Model, gradient_model: ir.Model) -> list[str]:
    return [str(value.name) for value in cotangent_inputs(model, gradient_model)]


def _assert_same_forward(want: Mapping[str, Any], got: Mapping[str, Any]) -> None:
    for name, value in want.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fV":
            if value.size == got[name].size == 0:
                continue  # an empty stack has the rank that the body declares: (0,) or (0, 0)
            scale = np.max(np.abs(value), initial=0.0)
            np.testing.assert_allclose(got[name], value, rtol=0, atol=rounding(value.dtype) * scale)

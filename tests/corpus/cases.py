"""The models that ONNX tests its operators with, as far as they have gradients to speak of."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases
from tests.corpus.tensors import cut_masked, feed_tensors, is_float_tensor, return_tensors

__all__ = ["Case", "cases"]


@dataclass(frozen=True)
class Case:
    """A model at one point.

    Attributes:
        name: what ONNX calls the test.
        operator: what it tests, also where the model holds the operator's definition.
        model: the model.
        feeds: its arguments.
        of, wrt: the float tensors among its outputs and inputs.
    """

    name: str
    operator: str
    model: ir.Model
    feeds: dict[str, Any]
    of: list[str]
    wrt: list[str]


@cache
def cases() -> dict[str, Case]:
    """Return, by name, every model that has a float input and a float output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        collected = collect_testcases(None)
    tested = {each.name: each.model.graph.node[0].op_type for each in collected}
    found = {}
    for each in collected:
        name = each.name.partition("_expanded")[0]
        case = _case(each, tested.get(name, tested[each.name]))
        if case.of and case.wrt:
            found[case.name] = case
    return found


def _case(collected: Any, operator: str) -> Case:
    model = ir.from_proto(collected.model)
    inputs, results = (list(map(_plain, side)) for side in collected.data_sets[0])
    feeds = feed_tensors(model.graph, inputs)
    results = return_tensors(model.graph, results)
    wrt = _names(model.graph.inputs)
    if all(np.size(feeds[name]) and _is_finite(feeds[name]) for name in wrt):
        cut_masked(model.graph, results)
    return Case(collected.name, operator, model, feeds, _names(model.graph.outputs), wrt)


def _plain(value: Any) -> Any:
    """Return recorded data as an array, a list of arrays, or None."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _names(values: list[ir.Value]) -> list[str]:
    return [str(value.name) for value in values if is_float_tensor(value)]


def _is_finite(array: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(array.astype(np.float64))))

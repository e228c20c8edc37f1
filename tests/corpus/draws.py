"""Models that draw random numbers, with what was drawn in the place of the draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from tests.corpus.cases import Case

from whileback.engines import compile
from whileback.graph.randomness import draws

__all__ = ["freeze_draws"]


def freeze_draws(
    case: Case, gradient_model: ir.Model, arguments: Mapping[str, Any]
) -> tuple[Case, ir.Model]:
    """Return a model and its gradient model with the masks that the latter draws for `Dropout`.

    Of such models differences can be taken. That the gradient uses the masks of the forward pass
    shows in that it draws no more of them.
    """
    drawing = [node for node in gradient_model.graph if draws(node)]
    if not drawing:
        return case, gradient_model
    original = [node for node in case.model.graph if draws(node)]
    assert all(node.op_type == "Dropout" for node in drawing), "this draws something else"
    assert len(drawing) == len(original), "the gradient draws once more"
    masks = _masks(gradient_model, arguments)
    model = _frozen(case.model, masks, arguments)
    return replace(case, model=model), _frozen(gradient_model, masks, arguments)


def _masks(model: ir.Model, arguments: Mapping[str, Any]) -> list[np.ndarray]:
    """Return what one run of the model draws."""
    model = model.clone()
    copies = [ir.node("Identity", [node.outputs[1]]) for node in model.graph if draws(node)]
    model.graph.extend(copies)
    for index, copy in enumerate(copies):
        copy.outputs[0].name = f"mask_{index}"
        copy.outputs[0].type = ir.TensorType(ir.DataType.BOOL)
        model.graph.outputs.append(copy.outputs[0])
    return list(compile(model, threads=1)(arguments).values())[-len(copies) :]


def _frozen(model: ir.Model, masks: list[np.ndarray], arguments: Mapping[str, Any]) -> ir.Model:
    """Return a copy that has the masks, and the ratios that they were drawn with, as constants."""
    model = model.clone()
    drawing = [node for node in model.graph if draws(node)]
    for node, mask in zip(drawing, masks, strict=True):
        X, ratio, _ = node.inputs
        number = arguments[str(ratio.name)]
        constants = [_constant(array) for array in (mask, mask / (1 - number), number)]
        drawn, factor, fixed = (constant.outputs[0] for constant in constants)
        product = ir.node("Mul", [X, factor])
        model.graph.insert_before(node, [*constants, product])
        ratio.replace_all_uses_with(fixed)
        for old, new in zip(node.outputs, (product.outputs[0], drawn), strict=False):
            new.name, old.name = old.name, None
            new.type, new.shape = old.type, old.shape
            old.replace_all_uses_with(new, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
    return model


def _constant(array: np.ndarray) -> ir.Node:
    return ir.node("Constant", [], {"value": ir.tensor(np.asarray(array))})

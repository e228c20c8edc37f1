"""Turns a function that onnxscript has read into a model."""

from __future__ import annotations

import re

import onnx
import onnxscript

__all__ = ["to_model"]


def to_model(function: onnxscript.OnnxFunction) -> onnx.ModelProto:
    """Return the function as a model whose loops hand out their variables in the right order.

    onnxscript 0.7 lists the variables of a loop twice, each time in the order of a set, and these
    orders may differ: then the outputs of the `Loop` are called by each other's names.
    """
    model = function.to_model_proto()
    for node in model.graph.node:
        if node.op_type == "Loop":
            (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
            named = {_variable(name): name for name in node.output}
            node.output[:] = [named[_variable(value.name)] for value in body.input[2:]]
    onnx.checker.check_model(model, full_check=True)
    return model


def _variable(name: str) -> str:
    """Return the name of a variable without the number that tells its values apart."""
    return re.sub(r"_\d+$", "", name)

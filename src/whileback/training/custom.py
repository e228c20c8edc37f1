"""Losses of the caller's own, as models or functions of ONNX or onnxscript."""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol

import onnx
import onnx_ir as ir
from onnx.helper import make_graph, make_model, make_tensor_value_info

from whileback.errors import ArgumentError
from whileback.formats import from_proto
from whileback.gradient.activity import dependents
from whileback.graph.builder import Builder
from whileback.graph.normalize import normalize
from whileback.graph.shapes import FLOATS, describe
from whileback.training.losses import Loss

__all__ = ["custom"]

_DOMAIN = "whileback.losses"
_number = count()


class Script(Protocol):
    """A function of onnxscript."""

    def to_model_proto(self) -> onnx.ModelProto:
        """Return the function as a model."""

    def to_function_proto(self) -> onnx.FunctionProto:
        """Return the function as a function of ONNX."""


def custom(
    model: ir.Model | onnx.ModelProto | ir.Function | onnx.FunctionProto | Script,
    output: str | None = None,
    label: str = "label",
    weight: float = 1.0,
) -> Loss:
    """Return a loss that a model or a function computes, of any operators that have gradients.

    Its first input is the prediction, its second one, if it has that, the label, of any type. The
    loss is the sum of its only output. A function of ONNX, or one of onnxscript without types,
    takes both as FLOAT.

    Raises: ArgumentError for something else, for another number of inputs or outputs, for a
    prediction or a loss that is not of floats, and for a loss that does not depend on the
    prediction smoothly.

    >>> import onnx.parser
    >>> loss = custom(onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     quartic (float[N] p, float[N] y) => (float l) {
    ...         d = Sub(p, y) s = Mul(d, d) l = ReduceSumSquare<keepdims = 0>(s)
    ...     }'''))
    >>> loss.name
    'quartic'
    """
    given = _opened(model)
    normal = normalize(given)
    _check(normal.graph)
    function = _as_function(normal)
    inputs = len(function.inputs)

    def compute(op: Builder, X: ir.Value, Y: ir.Value) -> ir.Value:
        prediction = op.cast(X, function.inputs[0])
        (result,) = op.emit(function.name, [prediction, Y][:inputs], domain=_DOMAIN)
        result.type = function.outputs[0].type
        return op.ReduceSum(result, keepdims=0)

    return Loss(
        str(given.graph.name),
        compute,
        output=output,
        label=label if inputs == 2 else None,
        weight=weight,
        function=function,
    )


def _opened(given: Any) -> ir.Model:
    """Return what computes a loss as a model."""
    if hasattr(given, "to_model_proto"):
        given = _of_script(given)
    if isinstance(given, ir.Function):
        given = ir.to_proto(given)
    if isinstance(given, onnx.FunctionProto):
        given = _of_function(given)
    if isinstance(given, onnx.ModelProto):
        given = from_proto(given, None)
    if not isinstance(given, ir.Model):
        raise ArgumentError(
            f"custom() got {type(given).__name__!r}. Give a model or a function of ONNX, or one of "
            "onnxscript."
        )
    return given


def _of_script(script: Script) -> onnx.ModelProto | onnx.FunctionProto:
    """Return a model, or where that would lack types, a function."""
    model = script.to_model_proto()
    typed = all(value.type.tensor_type.elem_type for value in model.graph.input)
    return model if typed else script.to_function_proto()


def _of_function(function: onnx.FunctionProto) -> onnx.ModelProto:
    """Return a model of FLOAT of any shape."""
    if function.attribute:
        raise ArgumentError(
            f"Function '{function.name}' has attributes without values: "
            f"{', '.join(map(repr, function.attribute))}. Give them defaults."
        )
    inputs, outputs = (
        [make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
        for names in (function.input, function.output)
    )
    graph = make_graph(function.node, function.name, inputs, outputs)
    return make_model(graph, opset_imports=function.opset_import)


def _as_function(model: ir.Model) -> ir.Function:
    """Return a function of a name of its own, in which constants stand for initializers."""
    graph = model.graph
    for value in list(graph.initializers.values()):
        if value.is_graph_input():
            continue
        node = ir.node("Constant", [], {"value": value.const_value})
        node.outputs[0].name = value.name
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
        value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
        del graph.initializers[str(value.name)]
        graph.insert_before(graph[0], node)
    return ir.Function(_DOMAIN, f"loss_{next(_number)}", graph=graph, attributes=[])


def _check(graph: ir.Graph) -> None:
    inputs, outputs = graph.inputs, graph.outputs
    if len(inputs) not in (1, 2) or len(outputs) != 1:
        raise ArgumentError(
            f"Model '{graph.name}' has {len(inputs)} inputs and {len(outputs)} outputs: a loss has "
            "a prediction and a label, or the prediction alone, and one output. Change the model."
        )
    for value in (inputs[0], outputs[0]):
        if value.dtype not in FLOATS:
            raise ArgumentError(
                f"'{value.name}' of model '{graph.name}' is {describe(value)}: a prediction and a "
                "loss are floats. Change the model."
            )
    active = dependents(graph, inputs[:1])
    if outputs[0] not in active:
        raise ArgumentError(
            f"'{outputs[0].name}' of model '{graph.name}' does not depend on '{inputs[0].name}' in "
            "a way that has a gradient. Change the model."
        )

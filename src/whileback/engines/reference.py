"""Runs models in NumPy with `onnx.reference`: a second opinion, and a judge in float64.

Some operators of its own stand in for those of `onnx.reference`, which do not follow the
specification. Limits: it is slow, `Scan` of opset 8 is refused, and the stack of a `Loop` of zero
trips has a size of 0 wherever the body does not declare one (and rank 1 if it declares no rank).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_one_hot
from onnx.reference.ops.aionnx_preview import op_flex_attention
from onnx.reference.ops.aionnx_preview_training import op_adam

from whileback.engines.base import Source
from whileback.errors import EngineError
from whileback.graph.copying import clone

__all__ = ["ARRAYS", "load"]

ARRAYS: tuple[type, ...] = ()


def load(source: Source, /) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Return a function that evaluates the model node by node."""
    try:
        proto = ir.to_proto(_in_memory(source.model))
        evaluator = ReferenceEvaluator(proto, new_ops=_OWN)
    except Exception as error:
        raise EngineError(f"onnx.reference refuses model {source.name!r}: {error}") from error

    def run(arguments: dict[str, Any]) -> Sequence[Any]:
        try:
            with np.errstate(all="ignore"):
                return evaluator.run(None, arguments)  # type: ignore[return-value]
        except Exception as error:
            raise EngineError(
                f"onnx.reference failed to run model {source.name!r}: {error}"
            ) from error

    return run


def _in_memory(model: ir.Model) -> ir.Model:
    """Return a copy whose external data is loaded, since the evaluator cannot resolve it."""
    copy = clone(model)
    ir.external_data.load_to_model(copy)
    return copy


class _WithBody(OpRun):
    """A node with one body, which also reads values of the outer scopes."""

    body: ReferenceEvaluator

    def need_context(self) -> bool:
        return True

    def trip(self, context: dict[str, Any], arguments: Sequence[Any]) -> list[Any]:
        """Run the body once; its own names hide those of the outer scopes."""
        names = zip(self.body.input_names, arguments, strict=True)
        return self.body.run(  # type: ignore[return-value]
            None, {**context, **self.body.rt_inits_, **dict(names)}
        )

    def empty(self, output: int) -> np.ndarray:
        """Return the stack of no rows of the body's output, as far as its type is declared."""
        types = self.body.output_types_ or []
        tensor = types[output].tensor_type
        dims = [dim.dim_value for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        return np.empty([0, *dims], dtype)


class Loop(_WithBody):
    """`Loop` that stacks rows of any rank, and makes no trip or some."""

    def _run(
        self, limit: Any, start: Any, *initial: Any, context: dict[str, Any], **_: Any
    ) -> tuple[Any, ...]:
        carried, rows = list(initial), list[list[Any]]()
        trip, proceed = 0, start is None or bool(start)
        while proceed and (limit is None or trip < limit):
            arguments = [np.array(trip, np.int64), np.array(proceed), *carried]
            condition, *outputs = self.trip(context, arguments)
            carried, row = outputs[: len(initial)], outputs[len(initial) :]
            rows.append(row)
            trip, proceed = trip + 1, bool(condition)
        if not rows:
            count = 1 + len(initial)
            stacks = [self.empty(i) for i in range(count, len(self.body.output_names))]
        else:
            stacks = [np.stack(column) for column in zip(*rows, strict=True)]
        return (*carried, *stacks)


class Scan(_WithBody):
    """`Scan` (opset 9 and newer) with axes and directions."""

    def _run(
        self, *arguments: Any, context: dict[str, Any], num_scan_inputs: int, **attributes: Any
    ) -> tuple[Any, ...]:
        count = len(arguments) - num_scan_inputs
        carried = list(arguments[:count])
        axes, reverse = _axes(attributes, "input", num_scan_inputs)
        stacks = [
            np.flip(np.moveaxis(stack, axis, 0), 0) if back else np.moveaxis(stack, axis, 0)
            for stack, axis, back in zip(arguments[count:], axes, reverse, strict=True)
        ]
        rows = []
        for row in zip(*stacks, strict=True):
            outputs = self.trip(context, [*carried, *row])
            carried = outputs[:count]
            rows.append(outputs[count:])
        return (*carried, *self._stacked(rows, count, attributes))

    def _stacked(
        self, rows: list[list[Any]], count: int, attributes: dict[str, Any]
    ) -> list[np.ndarray]:
        outputs = range(count, len(self.body.output_names))
        axes, reverse = _axes(attributes, "output", len(outputs))
        columns = zip(*rows, strict=True) if rows else ([] for _ in outputs)
        stacks = []
        for output, column, axis, back in zip(outputs, columns, axes, reverse, strict=True):
            stack = np.stack(column) if rows else self.empty(output)
            stacks.append(np.moveaxis(np.flip(stack, 0) if back else stack, 0, axis))
        return stacks


class SequenceMap(_WithBody):
    """`SequenceMap` over any number of elements, whose body reads values of the outer scopes."""

    def _run(self, *inputs: Any, context: dict[str, Any], **_: Any) -> tuple[list[Any], ...]:
        rows = [
            self.trip(context, [X[index] if isinstance(X, list) else X for X in inputs])
            for index in range(len(inputs[0]))
        ]
        columns = zip(*rows, strict=True) if rows else ([] for _ in self.body.output_names)
        return tuple(map(list, columns))


class Adam(op_adam.Adam):
    """`Adam` for any number of tensors, each in its own type."""

    op_domain = "ai.onnx.preview.training"

    def _run(self, *data: Any, **attributes: Any) -> Any:
        rate, count, *tensors = data
        number = len(tensors) // 4
        groups = [tensors[index::number] for index in range(number)]
        steps = [self._step(rate, count, *group, **attributes) for group in groups]
        return tuple(new for kind in zip(*steps, strict=True) for new in kind)

    def _step(self, *data: Any, **attributes: Any) -> list[np.ndarray]:
        results = self._run1(*data, **attributes)  # type: ignore[no-untyped-call]
        return [result.astype(data[2].dtype) for result in results]


class Det(OpRun):
    """`Det` of matrices of any float type, in that."""

    def _run(self, X: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(np.linalg.det(X.astype(np.float64))).astype(X.dtype),)


class OneHot(op_one_hot.OneHot):
    """`OneHot` that makes whole numbers of indices and their number."""

    def _run(self, indices: Any, depth: Any, values: Any, axis: int = -1) -> tuple[np.ndarray]:
        whole = np.asarray(indices).astype(np.int64), np.asarray(depth).astype(np.int64).item()
        return super()._run(*whole, values, axis=axis)  # type: ignore[no-untyped-call, no-any-return]


class _InContext:
    """A graph of a node, together with the values of the outer scopes that it reads."""

    def __init__(self, graph: ReferenceEvaluator, context: dict[str, Any]) -> None:
        self.graph, self.input_names = graph, graph.input_names
        self.outer = {**context, **graph.rt_inits_}

    def run(self, names: None, feeds: dict[str, Any], **options: Any) -> Any:
        return self.graph.run(names, self.outer | feeds, **options)


class FlexAttention(op_flex_attention.FlexAttention):
    """`FlexAttention` whose graphs read values of the outer scopes."""

    def need_context(self) -> bool:
        return True

    def _run(self, *inputs: Any, **attributes: Any) -> Any:
        context = attributes.pop("context")
        for name in ("score_mod", "prob_mod"):
            if attributes.get(name) is not None:
                attributes[name] = _InContext(attributes[name], context)
        return super()._run(*inputs, **attributes)


class GatherElements(OpRun):
    """`GatherElements` along axes of any length."""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: Any = 0) -> tuple[np.ndarray]:
        places: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
        places[axis] = indices
        return (data[tuple(places)],)


class Optional(OpRun):
    """`Optional` that is what it holds, or None, and no list of that."""

    def _run(self, value: Any = None, **_: Any) -> tuple[Any]:
        return (value,)


class Pad(OpRun):
    """`Pad` that cuts where pads are negative; they are inputs or, in old opsets, attributes."""

    def _run(
        self,
        data: np.ndarray,
        pads: Any,
        constant_value: Any = None,
        axes: Any = None,
        mode: Any = "constant",
        value: float = 0.0,
    ) -> tuple[np.ndarray]:
        widths = np.zeros((data.ndim, 2), np.int64)
        widths[slice(None) if axes is None else axes] = np.reshape(pads, (2, -1)).T
        bounds = np.minimum(widths, 0) * [-1, 1] + np.multiply.outer(data.shape, [0, 1])
        kept = data[tuple(slice(start, max(start, end)) for start, end in bounds)]
        widths = np.maximum(widths, 0)
        if mode != "constant":
            return (np.pad(kept, widths, mode=mode),)
        fill = data.dtype.type(value) if constant_value is None else constant_value
        return (np.pad(kept, widths, constant_values=fill),)


class SequenceInsert(OpRun):
    """`SequenceInsert`, into a sequence without elements as well."""

    def _run(self, S: list[Any], T: Any, position: Any = None) -> tuple[list[Any]]:
        place = len(S) if position is None else int(position)
        result = list(S)
        result.insert(place, T)
        return (result,)


def _axes(attributes: dict[str, Any], side: str, count: int) -> tuple[list[int], list[int]]:
    """Return the axis and the direction of each scan input or output."""
    axes = attributes.get(f"scan_{side}_axes") or [0] * count
    directions = attributes.get(f"scan_{side}_directions") or [0] * count
    return axes, directions


_OWN = [
    Adam,
    Det,
    FlexAttention,
    GatherElements,
    Loop,
    OneHot,
    Optional,
    Pad,
    Scan,
    SequenceInsert,
    SequenceMap,
]

"""What surrounds everything that derives a model from another one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import onnx
import onnx_ir as ir

from whileback.errors import ArgumentError, GraphError, WhilebackError
from whileback.graph.names import label
from whileback.graph.normalize import normalize
from whileback.graph.onnx_inference import shape_problem
from whileback.graph.scopes import walk

__all__ = ["derivation"]

P = ParamSpec("P")
R = TypeVar("R")
# What rules raise that read an axis, an element or an attribute which is not there.
_SURPRISES = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)


def derivation(derive: Callable[P, R]) -> Callable[P, R]:
    """Let a function whose first argument is a model pause the collector, and blame the model.

    Rules rely on nodes that ONNX allows. All nodes are held against ONNX's own inference of shapes
    only where something fails, since that takes time.
    """

    @wraps(derive)
    def surrounded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _collector_paused():
                return derive(*args, **kwargs)
        except (GraphError, *_SURPRISES) as error:
            model: Any = args[0] if args else kwargs.get("model")
            wrong = None if isinstance(error, ArgumentError) else _invalid_node(model)
            if wrong is None:
                raise
            raise GraphError(wrong) from error

    return surrounded


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector away from the many objects of graphs, which stay anyway.

    It looks at all of them again and again: a third of the time at 50 000 nodes.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _invalid_node(model: Any) -> str | None:
    """Say which node of a model ONNX does not allow, if there is one."""
    if not isinstance(model, ir.Model):
        return None
    try:
        graph = normalize(model).graph
    except (WhilebackError, *_SURPRISES):
        return None
    opset = graph.opset_imports[""]
    for node in walk(graph):
        known = not node.domain and onnx.defs.has(node.op_type)
        wrong = shape_problem(node, opset) if known else None
        if wrong is not None:
            return (
                f"Node {label(node)} (ai.onnx@{opset}::{node.op_type}) is not valid: {wrong}. "
                "Correct the model."
            )
    return None

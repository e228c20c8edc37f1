"""What to say of a model that JAX traces, and that has to know more than what is traced."""

from __future__ import annotations

from collections.abc import Collection

import onnx
import onnx_ir as ir

from whileback.engines.xla.dependence import sources
from whileback.errors import EngineError
from whileback.graph.scopes import is_loop, loop_view, operands, walk

__all__ = ["not_known", "not_known_length"]

_ADVICE = "or call the model outside of jax.jit, jax.vmap and the like"


def not_known(name: str, graph: ir.Graph, key: str, traced: Collection[str]) -> EngineError:
    """Return what to raise where a node has to know a value, named by the key, while compiling."""
    owner, _, what = key.rpartition("/")
    node = next((node for node in walk(graph) if node.name in (owner, key)), None)
    if node is None:
        return not_known_length(name, "a stack that a loop writes, and that other nodes read,")
    found = sources(graph, _asked(node, what))
    guilty = [each for each in found if each in traced] or found
    inputs = " and ".join(map(repr, guilty))
    kind = "an array" if len(guilty) == 1 else "arrays"
    reason = f"depends on the values of {inputs}" if inputs else "is drawn or computed in the run"
    remedy = f"Pass {inputs} as {kind} of NumPy's, {_ADVICE}" if inputs else _last(_ADVICE)
    asked = f"{what!r}" if owner else "the shapes of what it carries"
    message = (
        f"Model {name!r} is being traced by JAX, and node {node.name!r} ({node.op_type}) has to "
        f"know {asked} while it is compiled, which {reason}. {remedy}."
    )
    return EngineError(message, node=str(node.name))


def not_known_length(name: str, what: str) -> EngineError:
    """Return what to raise where a length that only the run tells has to be known."""
    return EngineError(
        f"Model {name!r} is being traced by JAX, and the length of {what} is only known when it "
        "runs. Pass the inputs that decide about it as arrays of NumPy's, leave it out of the "
        f"model, {_ADVICE}."
    )


def _last(advice: str) -> str:
    return advice.removeprefix("or ").replace("call", "Call", 1)


def _asked(node: ir.Node, what: str) -> list[ir.Value | None]:
    """Return the operand of that name in ONNX's specification, or else all of them.

    What a loop carries has other shapes if it makes more trips; which branch of an `If` runs does
    not depend on what the branches read.
    """
    if is_loop(node):
        view = loop_view(node)
        return [view.limit, view.start, view.proceed]
    if what == "condition":
        return [node.inputs[0]]
    if not onnx.defs.has(node.op_type, node.domain):
        return operands(node)
    formal = [each.name for each in onnx.defs.get_schema(node.op_type, node.domain).inputs]
    if what in formal[: len(node.inputs)]:
        return [node.inputs[formal.index(what)]]
    return operands(node)

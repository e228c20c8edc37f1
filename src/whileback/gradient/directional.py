"""`jvp` and `hvp`: from a model to the model that computes directional derivatives as well."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from whileback.errors import WhilebackWarning
from whileback.gradient.derivation import derivation
from whileback.gradient.forward import forward, in_turn
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.rewrite import LoopOptions
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.memory.truncation import Truncate
from whileback.gradient.selection import listed, select
from whileback.gradient.transform import Quantized, Transform, of_gradient

__all__ = ["hvp", "jvp"]


@derivation
def jvp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with the derivatives of each of `of` along a direction of all of `wrt`.

    The result has one more input `<name>_tangent` for each of `wrt`, and after the model's own
    outputs, and `of` where it is not among them, an output `<name>_tangent` for each of `of`.
    For arguments and errors see `whileback.jvp`.
    """
    outputs = [f"{name}_tangent" for name in listed(of)]
    loops = LoopOptions("keep", implicit=implicit)
    work = Transform(model, listed(of), listed(wrt), quantized, loops, opset, ir_version)
    for value in work.targets:
        if value not in work.op.active:
            warnings.warn(
                f"'{value.name}' depends on no value in wrt=: its tangent is zero everywhere.",
                WhilebackWarning,
                stacklevel=4,
            )
    return _push(work, outputs)


@derivation
def hvp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model:
    """Return the model with its gradients and their derivatives along a direction of `wrt`.

    Those are `<name>_hvp`, after the gradients `<name>_grad`. For arguments and errors see
    `whileback.hvp`.
    """
    work = of_gradient(
        model,
        of,
        wrt,
        reduce=reduce,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
        loops=LoopOptions("keep"),
        opset=opset,
        ir_version=ir_version,
    )
    return _push(work, [f"{name}_hvp" for name in listed(wrt)])


def _push(work: Transform, outputs: Sequence[str]) -> ir.Model:
    """Emit the forward pass; `outputs` are the names for the tangents of the targets."""
    op, graph = work.op, work.model.graph
    of = [str(value.name) for value in work.targets]
    op.role = "tangent"
    # An infinite slope meets no zero that stands for an element not chosen, as it does backward.
    op.masked = set()
    tangents = ChainMap(work.add_inputs(work.sources, "tangent"))
    outputs = [op.names.fresh(name) for name in outputs]
    forward(op, in_turn(graph), tangents)
    # Loops may have given values in the place of others, of the same names.
    work.targets = select(work.model, of, "of")
    work.add_targets()
    work.add_residuals()
    for value, output in zip(work.targets, outputs, strict=True):
        tangent = tangents[value] if value in tangents else op.zeros_like(value)
        is_free = tangent.producer() is not None and not tangent.is_graph_output()
        result = tangent if is_free else op.Identity(tangent)
        result.type, result.shape = value.type, value.shape
        work.add_output(str(value.name), output, result)
    return work.finish()

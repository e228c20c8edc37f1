"""Emits the ONNX operators that a Caffe2 operator is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from whileback.gradient import rules as _registered  # noqa: F401
from whileback.gradient.activity import dependents
from whileback.gradient.backward import GradientBuilder, backward
from whileback.graph.builder import Builder
from whileback.graph.origin import ORIGIN

__all__ = ["Emitter"]


class Emitter(Builder):
    """A builder whose nodes are named after the blob that they are emitted for."""

    blob = ""

    def _prefix(self) -> str:
        return f"{self.blob}/" if self.blob else ""

    def append(self, node: ir.Node) -> None:
        """Add a node made elsewhere, as `Builder` does; mark it as one that may be cleaned away."""
        super().append(node)
        node.metadata_props.setdefault(ORIGIN, self.blob)

    def pullback(
        self,
        forward: Callable[..., ir.Value | Sequence[ir.Value | None]],
        inputs: Sequence[ir.Value],
        cotangents: Sequence[ir.Value | None],
    ) -> list[ir.Value]:
        """Return the gradients of the inputs of a function, by the rules of ONNX's operators.

        So a `ConvGradient` is read as what the gradient of a `Conv` is. What only the forward
        part needed goes when the model is cleaned.

        Args:
            forward: called as `forward(op, *inputs)`, emits operators and returns what the
                `cotangents` are of.
            inputs: float tensors.
            cotangents: of each result, None where none flows.
        """
        apart = self.inside("pullback")
        own = [apart.Identity(value) for value in inputs]
        results = forward(apart, *own)
        results = [results] if isinstance(results, ir.Value) else list(results)
        active = dependents(apart.graph, own)
        op = GradientBuilder(apart.graph, self.names, self.shapes, active)
        op.share_constants(self)
        known = {
            result: cotangent
            for result, cotangent in zip(results, cotangents, strict=False)
            if result is not None and cotangent is not None
        }
        backward(op, list(apart.graph)[len(own) :], known)
        found = [known[value] if value in known else op.zeros_like(value) for value in own]
        for node in list(apart.graph):
            apart.graph.remove(node)
            self.graph.append(node)
        return found

"""A model whose run keeps what its gradient needs, so that the way back runs nothing again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from whileback.engines.base import Compiled
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.split import split
from whileback.gradient.transform import Quantized, vjp

__all__ = ["Taped", "seeds"]

Arrays = Mapping[str, Any]


class Taped:
    """A model in two parts: its own run, and the way back.

    Attributes:
        kept: the names of outputs of the model that the way back reads.
    """

    def __init__(
        self,
        model: ir.Model,
        of: Sequence[str],
        wrt: Sequence[str],
        compile: Callable[[ir.Model], Compiled],
        memory: Memory = None,
        quantized: Quantized = None,
    ) -> None:
        whole = vjp(model, of=of, wrt=wrt, memory=memory, quantized=quantized)
        self._wrt = list(wrt)
        self._seeds = dict(zip(of, seeds(whole, of), strict=True))
        forward, back = split(whole, len(model.graph.outputs))
        self._forward, self._back = compile(forward), compile(back)
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self.kept = [name for name in self._outputs if name in self._back.inputs]

    def forward(self, arguments: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outputs, and what else the way back reads of the run."""
        given = {name: each for name, each in arguments.items() if name in self._forward.inputs}
        out = self._forward(given)
        return {name: out.pop(name) for name in self._outputs}, out

    def backward(self, arguments: Arrays, tape: Arrays, cotangents: Arrays) -> dict[str, Any]:
        """Return the gradients by input.

        Args:
            arguments: those of the run, and by name the outputs that are `kept`.
            tape: what the run has kept.
            cotangents: by output.
        """
        given = {**arguments, **tape}
        given |= {self._seeds[name]: each for name, each in cotangents.items()}
        read = {name: each for name, each in given.items() if name in self._back.inputs}
        out = list(self._back(read).values())[-len(self._wrt) :]
        return dict(zip(self._wrt, out, strict=True))


def seeds(gradient: ir.Model, of: Sequence[str]) -> list[str]:
    """Return the names of the cotangents of `of` in a model that `vjp` made for inputs."""
    return [str(value.name) for value in gradient.graph.inputs[-len(of) :]]

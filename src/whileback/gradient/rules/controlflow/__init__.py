"""Gradients of `If`, `Loop` and `Scan`."""

from whileback.gradient.rules.controlflow import branch, loop

__all__ = ["branch", "loop"]

"""From a graph to the graph that computes its gradients."""

from whileback.gradient.registry import entries, not_differentiable, rule
from whileback.gradient.transform import gradient, names, vjp

__all__ = ["entries", "gradient", "names", "not_differentiable", "rule", "vjp"]

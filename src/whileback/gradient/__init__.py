"""From a graph to the graph that computes its gradients."""

from whileback.gradient.directional import hvp, jvp
from whileback.gradient.matrices import hessian, jacobian
from whileback.gradient.registry import entries, not_differentiable, rule
from whileback.gradient.transform import gradient, names, vjp

__all__ = [
    "entries",
    "gradient",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "names",
    "not_differentiable",
    "rule",
    "vjp",
]

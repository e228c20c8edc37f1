"""From a net to a net with its gradient, in Caffe2's own operators.

The net is taken apart into regions (`parsing`), lists of operators in which each version of a blob
has a name of its own. Each is differentiated from its last operator to its first (`backward`,
`branches`, `loops`). What the gradient reads of the forward values is then looked for in the blobs
that still hold it, and kept in a copy where none does (`keeping`, `finishing`, `rewriting`).
"""

from whileback.caffe2.gradients import recurrent as _recurrent  # noqa: F401
from whileback.caffe2.gradients.control_gradient import (
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
    rewrite_forward,
)
from whileback.caffe2.gradients.net_gradient import GradientMap, add_gradient_operators

__all__ = [
    "GradientMap",
    "add_gradient_operators",
    "gen_do_gradient",
    "gen_if_gradient",
    "gen_while_gradient",
    "rewrite_forward",
]

"""The public calls that look at models: what changed from one to another."""

from __future__ import annotations

from whileback.api import AnyModel, Path, opened
from whileback.comparing.compare import compare
from whileback.comparing.difference import Difference

__all__ = ["diff"]


def diff(a: AnyModel, b: AnyModel, *, base_dir: Path | None = None) -> Difference:
    """Return what changed from one model to another: inputs, outputs, weights, nodes, bodies.

    Nodes are matched by what they compute of what, so that other names inside of the models, and
    another order of nodes, change nothing. Weights are read, also external data, and compared by
    the norm of their difference.

    Args:
        a, b: models in any of the three forms.
        base_dir: the folder of external data, if both are a ModelProto.

    Raises:
        FormatError, GraphError, UnsupportedError: a model cannot be read or is not valid.

    >>> import onnx_ir as ir, whileback
    >>> text = '''<ir_version: 10, opset_import: ["" : 21]>
    ...     f (float[2] x) => (float[2] y) { h = Neg(x) y = Relu(h) }'''
    >>> a, b = (ir.from_onnx_text(t) for t in (text, text.replace("Relu", "Elu<alpha = 0.5>")))
    >>> print(whileback.diff(a, b))
    nodes: 1 changed, 1 the same
      ~ y = Relu(h)
        Relu → Elu
        alpha: not set → 0.5
    >>> whileback.diff(a, a).is_empty
    True
    """
    return compare(opened(a, base_dir), opened(b, base_dir))

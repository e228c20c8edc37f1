"""Gradients at chosen points for chosen cotangents: where finite differences mean nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.judge import Arrays, parse

from whileback.engines import compile
from whileback.gradient import names, vjp


def gradients(
    model: str, inputs: Mapping[str, Any], cotangent: Any = 1.0, *, opset: int = 21
) -> Arrays:
    """Return the gradients of `y` with respect to the float inputs, by their names.

    Inputs and cotangent are turned into FLOAT unless they are arrays already; a cotangent of one
    number is given to every element of `y`.
    """
    feeds = {
        n: v if isinstance(v, np.ndarray) else np.array(v, np.float32) for n, v in inputs.items()
    }
    wrt = [name for name, value in feeds.items() if value.dtype.kind == "f"]
    forward = parse(model, opset)
    y = compile(forward)(feeds)["y"]
    model = vjp(forward, of="y", wrt=wrt)
    known = names(model)
    seed = np.broadcast_to(np.asarray(cotangent, y.dtype), y.shape)
    results = compile(model)({**feeds, known["y"]: seed})
    return {name: results[known[name]] for name in wrt}

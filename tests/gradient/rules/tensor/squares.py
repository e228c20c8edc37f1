"""Models that apply one operator to the squares of an input, so that all derivatives differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.judge import Arrays, assert_gradient

# All dimensions known, one unknown, all unknown, and not even their number known.
KINDS = ("float[2,3]", "float[B,3]", "float[A,B]", "float[]")

X = np.array([[0.5, -1.25, 2.0], [0.75, 1.5, -0.25]], np.float32)


def judge(
    body: str,
    kind: str = "float[2,3]",
    arguments: str = "",
    *,
    of: Sequence[str] = ("y",),
    wrt: Sequence[str] = ("x",),
    result: str = "float",
    second_order: bool = True,
    opset: int = 21,
    **inputs: Any,
) -> Arrays:
    """Judge the derivatives of a body that makes `y` of `h`, the squares of `x`.

    Args:
        body: the operator, in ONNX text.
        kind: the type of `x`; of `h` where it leaves the shape out.
        arguments: more inputs of the model, such as `int64[1] axes`.
        of: the results of the body to differentiate.
        wrt: the inputs with respect to which.
        result: the type of their elements.
        second_order: whether to judge second derivatives.
        opset: that of the model.
        inputs: the values of all inputs but `x`, for which there is a default.
    """
    values: dict[str, Any] = {"x": X} | inputs
    values = {n: np.array(v, np.int64) if isinstance(v, list) else v for n, v in values.items()}
    head = f"{kind} x", "h = Mul(x, x)"
    if kind.endswith("[]"):
        shape = values["x"].shape
        values["x"] = values["x"].reshape(-1)
        values["shape"] = np.array(shape, np.int64)
        head = f"{kind[:-1]}N] x, int64[R] shape", "square = Mul(x, x) h = Reshape(square, shape)"
    signature = ", ".join(filter(None, (head[0], arguments)))
    results = ", ".join(f"{result}[N_{name}] {name}_flat" for name in of)
    tail = ints(flat=[-1]) + "".join(f" {name}_flat = Reshape({name}, flat)" for name in of)
    model = f"({signature}) => ({results}) {{ {head[1]} {body} {tail} }}"
    flat = [f"{name}_flat" for name in of]
    return assert_gradient(model, flat, list(wrt), values, opset=opset, second_order=second_order)


def ints(**lists: Sequence[int]) -> str:
    """Return `Constant` nodes that hold lists of integers."""
    return " ".join(
        f"{name} = Constant<value_ints = [{', '.join(map(str, numbers))}]>()"
        for name, numbers in lists.items()
    )

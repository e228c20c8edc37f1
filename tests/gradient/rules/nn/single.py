"""Models of a single operator, with more or less known of the shapes of its inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.judge import Arrays, assert_gradient

KINDS = ("known", "symbols", "unknown")

_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "float16",
    "bool": "bool",
    "int64": "int64",
}


def values(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Return numbers of both signs, no two alike and none close to zero, in any order."""
    count = int(np.prod(shape))
    sizes = np.linspace(0.25, 1.75, count) * np.where(np.arange(count) % 2, -1, 1)
    return np.random.default_rng(seed).permutation(sizes).reshape(shape).astype(dtype)


def judge(
    call: str,
    kind: str = "known",
    *,
    of: Sequence[str] = ("y",),
    wrt: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    elements: int = 10,
    **inputs: Any,
) -> Arrays:
    """Judge first and second derivatives of an operator, given as `Op<attributes>`.

    Args:
        call: the operator and its attributes.
        kind: whether all of the inputs' dimensions are known, none, or not even their number.
        of: the outputs to differentiate, flattened.
        wrt: the inputs with respect to which, all floats unless given.
        outputs: the names of the node's outputs.
        opset: that of the model.
        elements: a gradient of at most so many elements is judged one by one.
        inputs: the values of the node's inputs, in their order.
    """
    feeds, head, body = dict[str, np.ndarray](), list[str](), ""
    for name, array in inputs.items():
        dims = array.shape if kind == "known" else [f"{name}_{i}" for i in range(array.ndim)]
        shape = f"[{','.join(map(str, dims))}]" if array.ndim else ""
        feeds[name] = array
        if kind != "unknown" or array.ndim == 0:
            head.append(f"{_TYPES[array.dtype.name]}{shape} {name}")
            continue
        head.append(f"{_TYPES[array.dtype.name]}{shape} {name}, int64[{name}_rank] {name}_shape")
        body += f"{name}_same = Reshape({name}, {name}_shape) "
        feeds[f"{name}_shape"] = np.array(array.shape)
    read = [f"{n}_same" if f"{n}_shape" in feeds else n for n in inputs]
    body += f"{', '.join(outputs)} = {call.replace('<>', '')}({', '.join(read)}) "
    body += "flat = Constant<value_ints = [-1]>() "
    body += " ".join(f"{name}_flat = Reshape({name}, flat)" for name in of)
    type_ = _TYPES[next(iter(inputs.values())).dtype.name]
    results = ", ".join(f"{type_}[{name}_size] {name}_flat" for name in of)
    floats = [name for name, array in inputs.items() if array.dtype.kind == "f"]
    return assert_gradient(
        f"({', '.join(head)}) => ({results}) {{ {body} }}",
        [f"{name}_flat" for name in of],
        list(floats if wrt is None else wrt),
        feeds,
        opset=opset,
        second_order=True,
        elements=elements,
        directions=2,
    )

"""The calls for other derivatives than gradients: along directions, and all at once.

Models are taken, and given back, as by `whileback.api`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import onnx
import onnx_ir as ir

from whileback.api import AnyModel, Path, given_back, opened
from whileback.gradient import directional, matrices
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.memory.truncation import Truncate
from whileback.gradient.transform import Quantized
from whileback.signatures import require_types

__all__ = ["hessian", "hvp", "jacobian", "jvp"]


@overload
def jvp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model: ...
@overload
def jvp(
    model: Path | onnx.ModelProto,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto: ...
def jvp(
    model: AnyModel,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto | ir.Model:
    """Return a model that computes what `model` computes, and its derivatives along a direction.

    The direction is one more input `<name>_tangent` for each of `wrt`, of its shape and type. The
    outputs are the model's own, then `of` where it is not among them, then `<name>_tangent` for
    each of `of`: how fast it changes as all of `wrt` move along their tangents.

    Loops compute tangents beside their values, trip by trip: memory does not grow with the number
    of trips, so that there is no `memory=`, and no `truncate=` either. For loops of `implicit`, the
    tangent is that of the solution. For the other arguments and errors see `gradient`; of `of` any
    shape will do.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     squares (float[2] x) => (float[2] y) { y = Mul(x, x) }''')
    >>> from whileback import compile
    >>> f = compile(jvp(model, of="y", wrt="x"))
    >>> f(x=[3.0, 4.0], x_tangent=[1.0, 10.0])["y_tangent"].tolist()
    [6.0, 80.0]
    """
    require_types(jvp, locals(), but=("model", "of", "wrt"))
    result = directional.jvp(
        opened(model, base_dir),
        of,
        wrt,
        quantized=quantized,
        implicit=implicit,
        opset=opset,
        ir_version=ir_version,
    )
    return given_back(result, model)


@overload
def hvp(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model: ...
@overload
def hvp(
    model: Path | onnx.ModelProto,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto: ...
def hvp(
    model: AnyModel,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto | ir.Model:
    """Return a model that computes gradients, and products of the Hessian with a direction.

    Like `gradient`, with one more input `<name>_tangent` for each of `wrt`, and after the gradients
    one more output `<name>_hvp` for each: how fast its gradient changes as all of `wrt` move along
    their tangents. That takes a few times as long as the gradient, however large the Hessian.
    `names` knows the tangent of `x` as `x`, and `x_hvp`, which is the tangent of the gradient, by
    the name of that. For arguments and errors see `gradient`: with `truncate`, values between which
    no gradient flows count as constants; with `implicit`, there are residuals of the gradients and
    of the products.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     product (float x, float w) => (float y) { y = Mul(x, w) }''')
    >>> from whileback import compile
    >>> f = compile(hvp(model, of="y", wrt=["x", "w"]))
    >>> {k: v.item() for k, v in f(x=2.0, w=3.0, x_tangent=1.0, w_tangent=10.0).items()}
    {'y': 6.0, 'x_grad': 3.0, 'w_grad': 2.0, 'x_hvp': 10.0, 'w_hvp': 1.0}
    """
    require_types(hvp, locals(), but=("model", "of", "wrt"))
    result = directional.hvp(
        opened(model, base_dir),
        of,
        wrt,
        reduce=reduce,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
        opset=opset,
        ir_version=ir_version,
    )
    return given_back(result, model)


@overload
def jacobian(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model: ...
@overload
def jacobian(
    model: Path | onnx.ModelProto,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto: ...
def jacobian(
    model: AnyModel,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto | ir.Model:
    """Return a model that computes what `model` computes, and all derivatives of `of`.

    Its outputs are the model's own, then `of` where it is not among them, then `<y>_<x>_jacobian`
    for each y of `of` and each x of `wrt`: of the shape of y, followed by that of x. `names` knows
    it as `y/x`.

    A loop in the model goes over the elements: over those of `wrt`, forward, if they are known to
    be no more than those of `of`, else over those of `of`, backward, which runs the model's own
    loops only once. For arguments and errors see `gradient`; of `of` any shape will do. A loop of
    `implicit` has the largest of its residuals for all elements.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     squares (float[2] x) => (float[2] y) { y = Mul(x, x) }''')
    >>> from whileback import compile
    >>> compile(jacobian(model, of="y", wrt="x"))(x=[3.0, 4.0])["y_x_jacobian"].tolist()
    [[6.0, 0.0], [0.0, 8.0]]
    """
    require_types(jacobian, locals(), but=("model", "of", "wrt"))
    result = matrices.jacobian(
        opened(model, base_dir),
        of,
        wrt,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
        opset=opset,
        ir_version=ir_version,
    )
    return given_back(result, model)


@overload
def hessian(
    model: ir.Model,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
) -> ir.Model: ...
@overload
def hessian(
    model: Path | onnx.ModelProto,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto: ...
def hessian(
    model: AnyModel,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    reduce: Literal["sum"] | None = None,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    opset: int | None = None,
    ir_version: int | None = None,
    base_dir: Path | None = None,
) -> onnx.ModelProto | ir.Model:
    """Return a model that computes gradients, and all second derivatives.

    Like `gradient`, with outputs `<x>_<w>_hessian` after the gradients, for each x and each w of
    `wrt`: how each element of the gradient of x changes with each element of w. `names` knows it as
    `x/w`. It is the `jacobian` of the gradient, for small problems; for large ones there is `hvp`.
    For arguments and errors see `gradient`.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     norm (float[2] x) => (float y) { y = ReduceSumSquare<keepdims = 0>(x) }''')
    >>> from whileback import compile
    >>> compile(hessian(model, of="y", wrt="x"))(x=[3.0, 4.0])["x_x_hessian"].tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    require_types(hessian, locals(), but=("model", "of", "wrt"))
    result = matrices.hessian(
        opened(model, base_dir),
        of,
        wrt,
        reduce=reduce,
        quantized=quantized,
        memory=memory,
        truncate=truncate,
        implicit=implicit,
        opset=opset,
        ir_version=ir_version,
    )
    return given_back(result, model)

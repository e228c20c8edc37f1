"""The calls that whileback offers, for models in any of three forms.

A model is the path of an ONNX file, an `onnx.ModelProto` or an `onnx_ir.Model`. It is never
modified. External data is never read: it stays where it is, by reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

import onnx
import onnx_ir as ir

from whileback import formats
from whileback.checking.check import check as check_gradients
from whileback.checking.report import Report
from whileback.checking.unrounded import without_rounding
from whileback.errors import ArgumentError
from whileback.formats.data_layout import ExternalData, Progress
from whileback.gradient import transform
from whileback.gradient.memory.marking import ImplicitLoops
from whileback.gradient.memory.rewrite import LoopOptions
from whileback.gradient.memory.strategies import Memory
from whileback.gradient.memory.truncation import Truncate
from whileback.gradient.selection import listed
from whileback.gradient.transform import Quantized
from whileback.graph.normalize import normalize
from whileback.graph.scopes import definitions
from whileback.signatures import require_types

__all__ = ["check", "gradient", "names", "save", "vjp"]

Path = str | PathLike[str]
AnyModel = Path | onnx.ModelProto | ir.Model


@overload
def gradient(
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
def gradient(
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
def gradient(
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
    """Return a model that computes what `model` computes, and the gradients of the sum of `of`.

    Its outputs are the model's own, then `of` where it is not among them, then one gradient
    `<name>_grad` for each of `wrt`, in their order, each of the shape and type of its value.

    Args:
        model: a path, a ModelProto (`base_dir` is the folder of its external data), or an
            ir.Model, which gives an ir.Model. Data stays relative to the folder of a path.
        of: one value of the main graph, or several. Each must have one element, unless `reduce`.
        wrt: float inputs, initializers or intermediate values of the main graph. An initializer
            becomes an input with itself as default; in a subgraph it is `node/branch/name`.
        reduce: "sum" differentiates the sum of all elements of `of`.
        quantized: "straight-through" differentiates what rounds, such as `QuantizeLinear`, as if
            it did not; outside of the range that it clips to, the gradient is zero.
        memory: what is kept of a loop's trips for the way back. "keep" keeps what the way back
            reads; "recompute" keeps what is carried from trip to trip, and runs the body again;
            "checkpoint" holds O(√T) of T trips, and runs them once more, or twice if only the
            run tells T; `budget(frames=…, trips=…)` is the fastest of them that fits. A mapping
            `{"loop": …}` says it for single loops, by the name of the node or of an output. The
            default keeps, but for loops that are known to compute more than 1 GB. What was
            chosen, and why, is told by `show`.
        truncate: over how many trips of a loop a cotangent is carried at most: the trips are cut
            into segments of so many, counted from the end, and the gradient stops between them.
            A mapping `{"loop": trips}` says it for single loops.
        implicit: which loops iterate which of their carried values to a solution, such as
            `{"loop": "z"}` or `{"loop": implicit("z", tolerance=…, trips=…)}`. Their gradients
            come from the implicit function theorem at the last z: nothing of the trips is kept,
            and what z starts with has a gradient only if no trip is made. The linear equation
            that this takes is solved by a loop; how well is told by one more output for each such
            loop of the main graph, before the gradients: `<loop>_residual`, the sum of the last
            change's absolute values relative to that of the cotangent.
        opset, ir_version: the newest ones (the opset of the default domain) that it may have.

    Raises:
        ArgumentError: a name is unknown, or its value has no gradient or too many elements; or
            what is said of loops cannot be had.
        NoGradientError: operators on the way have no rule, or round; all of them are listed.
        UnsupportedError: the model needs a newer opset than `opset`, or a loop of `implicit`
            carries something else that changes and on which its solution depends.
        FormatError, GraphError: the model cannot be read or is not valid.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     square (float x) => (float y) { y = Mul(x, x) }''')
    >>> from whileback import compile
    >>> compile(gradient(model, of="y", wrt="x"))(x=3.0)["x_grad"].item()
    6.0
    """
    require_types(gradient, locals(), but=("model", "of", "wrt"))
    result = transform.gradient(
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
def vjp(
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
def vjp(
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
def vjp(
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
    """Return a model that computes what `model` computes, and vector-Jacobian products of `of`.

    Like `gradient`, for values `of` of any shape: the result has one more input `<name>_grad` for
    each of `of`, its cotangent, of the value's shape and type. For arguments and errors see
    `gradient`.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     squares (float[2] x) => (float[2] y) { y = Mul(x, x) }''')
    >>> from whileback import compile
    >>> compile(vjp(model, of="y", wrt="x"))(x=[3.0, 4.0], y_grad=[1.0, 10.0])["x_grad"].tolist()
    [6.0, 80.0]
    """
    require_types(vjp, locals(), but=("model", "of", "wrt"))
    result = transform.vjp(
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


def names(model: AnyModel, *, base_dir: Path | None = None) -> Mapping[str, str]:
    """Return which output is the gradient of which value, and which input its cotangent.

    The `<loop>_residual` of loops that are differentiated implicitly are among them as well. Empty
    for a model that whileback did not make.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     square (float x) => (float y) { y = Mul(x, x) }''')
    >>> names(vjp(model, of="y", wrt="x"))
    {'y': 'y_grad', 'x': 'x_grad'}
    """
    return transform.names(opened(model, base_dir))


def check(
    model: AnyModel,
    of: str | Sequence[str],
    wrt: str | Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    quantized: Quantized = None,
    memory: Memory = None,
    truncate: Truncate = None,
    implicit: ImplicitLoops = None,
    base_dir: Path | None = None,
    seed: int = 0,
    elements: int = 64,
    directions: int = 3,
) -> Report:
    """Compare gradients of a model with finite differences, and give a verdict on each of `wrt`.

    Checks what `gradient` makes if each of `of` is known to have one element, else what `vjp`
    makes, for random cotangents. For the differences the model runs in float64. With `quantized`,
    nothing is rounded in both of them.

    Args:
        model, of, wrt, quantized, memory, truncate, implicit, base_dir: as for `vjp`. What
            `truncate` cuts off is missed by the differences: such a gradient is WRONG.
        inputs: values for some of the model's inputs; the others get random ones.
        seed: makes the random values.
        elements: a gradient of at most so many elements is checked one by one.
        directions: a larger one is checked along so many random directions.

    Raises:
        ArgumentError: as for `vjp`, or an input has no random value and none is given.
        EngineError: ONNX Runtime is not installed, or refuses the model.

    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
    ...     square (float x) => (float y) { y = Mul(x, x) }''')
    >>> check(model, of="y", wrt="x").ok
    True
    """
    require_types(check, locals(), but=("model", "of", "wrt"))
    own, of, wrt = opened(model, base_dir), listed(of), listed(wrt)
    loops = LoopOptions(memory, truncate, implicit)
    result = transform.gradient_or_vjp(own, of, wrt, quantized, loops)
    options = {"seed": seed, "elements": elements, "directions": directions}
    plain = _with_values(own, wrt)
    if quantized is not None:
        plain, result = without_rounding(plain), without_rounding(result)
    return check_gradients(plain, of, wrt, inputs, gradient_model=result, **options)


def _with_values(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """Return the model, in normal form if only that has `node/branch/name` in its main graph."""
    known = {value.name for value in definitions(model.graph)}
    return model if known.issuperset(names) else normalize(model)


def save(
    model: onnx.ModelProto | ir.Model,
    path: Path,
    *,
    base_dir: Path | None = None,
    external_data: ExternalData | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a model to `path`, whole or not at all; as text if it ends in `.onnx.txt`.

    External data in the folder of `path` stays where it is. For data in another folder say
    `external_data="copy"` (into `<path>.data`) or `"reference"` (where that folder lies inside of
    the output's).

    Args:
        model: a ModelProto or an ir.Model.
        path: the file to write.
        base_dir: the folder of a ModelProto's external data.
        external_data: what to do with data in another folder; None refuses.
        overwrite: whether existing files may be replaced.
        progress: called with file name, bytes done and bytes in all, while data is written.

    Raises:
        FormatError: a file is in the way, cannot be written, or external data is refused.
    """
    require_types(save, locals(), but=("model",))
    formats.save(
        opened(model, base_dir),
        path,
        external_data=external_data,
        overwrite=overwrite,
        progress=progress,
    )


def given_back(result: ir.Model, model: AnyModel) -> onnx.ModelProto | ir.Model:
    """Return a result in the form that goes with the model it was made of."""
    return result if isinstance(model, ir.Model) else formats.to_proto(result)


def opened(model: AnyModel, base_dir: Path | None) -> ir.Model:
    """Return any of the three forms as an ir.Model."""
    if base_dir is not None and not isinstance(model, onnx.ModelProto):
        raise ArgumentError(
            "base_dir= is the folder of a ModelProto's external data; a path or an ir.Model "
            "knows its own. Leave it out."
        )
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return formats.from_proto(model, base_dir)
    if isinstance(model, str | PathLike):
        return formats.load(model)
    raise ArgumentError(
        f"model= is a {type(model).__name__!r}; give a path, an onnx.ModelProto or an "
        "onnx_ir.Model."
    )

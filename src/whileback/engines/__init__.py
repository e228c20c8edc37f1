"""Runs models; the only part of whileback that imports a runtime, and only when it is used."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from whileback.engines.base import Compiled, Source
from whileback.errors import ArgumentError, EngineError, nearest
from whileback.formats import from_proto, load
from whileback.formats.onnx_text import is_text
from whileback.signatures import require_types

__all__ = ["ENGINES", "Compiled", "compile"]

_ENGINES = {
    "onnxruntime": "whileback.engines.onnxruntime",
    "reference": "whileback.engines.reference",
    "xla": "whileback.engines.xla",
}
ENGINES = ("auto", *_ENGINES)


def compile(
    model: ir.Model | onnx.ModelProto | str | PathLike[str],
    engine: str = "onnxruntime",
    *,
    base_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Compiled:
    """Make a model ready to run.

    With `engine="xla"`, arrays of NumPy's give such arrays, and arrays of JAX's give these. Then
    `jax.jit`, `jax.grad` (also of itself) and the like, and `jax.vmap` work on the result:
    gradients are whileback's, so that no loop needs a bound on its trips, and a branch that an
    element of a batch does not take does not run. Arrays may be spread over the devices of a mesh,
    and over processes.

    * What shapes depend on has to be known inside `jax.jit` and `jax.vmap`: pass it as a number or
      an array of NumPy's. Outside, also under `jax.grad`, programs are compiled as runs need them.
    * For 64 bits, JAX's arrays may have 32, and do where `jax_enable_x64` is off, results too.
    * A program inside `jax.jit` draws the same random numbers whenever it runs.
    * There are no forward-mode derivatives: take `jax.jacrev`, not `jax.jacfwd` or `jax.jvp`.

    Args:
        model: a model, or the path of an ONNX file (binary or text), whose external data stays
            where it is.
        engine: `"onnxruntime"`; `"xla"`, which compiles the model by JAX (see docs/xla.md);
            `"auto"`, which is "xla" if that knows all operators of the model, else "onnxruntime";
            or `"reference"`, which is slow and evaluates with NumPy.
        base_dir: the folder of a ModelProto's external data, if it has any.
        options: for `"onnxruntime"`, also if `"auto"` comes to it: `optimization` (`"disabled"`,
            `"basic"`, `"extended"`, `"all"`), `threads` (0: as many as there are cores), and
            `flush`: whether numbers below 1e-38 (2e-308 in float64) count as zero. Gradients
            that vanish in a long loop end there, where some processors are 20 times as slow.
            ONNX Runtime takes that from the first session of a process, and then the thread
            that made it, NumPy included, computes so from there on.
            For `"xla"`, `mesh`: a `jax.sharding.Mesh` whose devices compute; see docs/xla.md.

    Raises:
        ArgumentError: the engine is unknown, or has no such option.
        EngineError: the runtime is missing, or refuses the model.
        FormatError, GraphError: the model cannot be read or is not valid.

    >>> f = compile(model)                       # doctest: +SKIP
    >>> f(x=x)["w_grad"], f({"a/b:0": x})        # doctest: +SKIP
    """
    require_types(compile, locals(), but=("model",))
    if engine not in ENGINES:
        raise ArgumentError(f"There is no engine {engine!r}; {nearest(engine, ENGINES)}")
    source = _source(model, base_dir)
    if engine == "auto":
        return _first(source, ("xla", "onnxruntime"), options)
    return _compiled(source, engine, options)


def _first(source: Source, engines: Sequence[str], options: dict[str, Any]) -> Compiled:
    """Return the model on the first engine that takes it; the options are for the last one."""
    *others, last = engines
    _require_known(last, options)
    for engine in others:
        with contextlib.suppress(EngineError):
            return _compiled(source, engine, {})
    return _compiled(source, last, options)


def _compiled(source: Source, engine: str, options: dict[str, Any]) -> Compiled:
    module = _module(engine)
    _require_known(engine, options)
    return Compiled(source, module.load(source, **options), module.ARRAYS)


def _require_known(engine: str, options: Collection[str]) -> None:
    """Refuse options that the engine does not have.

    Raises: ArgumentError.
    """
    _, *known = inspect.signature(_module(engine).load).parameters
    for name in options:
        if name not in known:
            hint = nearest(name, known) if known else "it has none"
            raise ArgumentError(f"The engine {engine!r} has no option {name!r}; {hint}")


def _module(engine: str) -> Any:
    try:
        return importlib.import_module(_ENGINES[engine])
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise EngineError(
            f"The engine {engine!r} needs the package {package}, which is not installed. "
            f"Install it with: pip install 'whileback[{engine}]'"
        ) from error


def _source(
    model: ir.Model | onnx.ModelProto | str | PathLike[str], base_dir: str | PathLike[str] | None
) -> Source:
    if isinstance(model, ir.Model):
        return Source(model)
    if isinstance(model, onnx.ModelProto):
        return Source(from_proto(model, base_dir))
    # No runtime reads the text form.
    return Source(load(model), None if is_text(Path(model)) else Path(model))

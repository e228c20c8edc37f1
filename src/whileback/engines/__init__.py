"""Runs models; the only part of whileback that imports a runtime, and only when it is used."""

from __future__ import annotations

import importlib
from os import PathLike
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from whileback.engines.base import Compiled, Source
from whileback.errors import ArgumentError, nearest

__all__ = ["Compiled", "compile"]

_ENGINES = {
    "onnxruntime": "whileback.engines.onnxruntime",
    "reference": "whileback.engines.reference",
}


def compile(
    model: ir.Model | onnx.ModelProto | str | PathLike[str],
    engine: str = "onnxruntime",
    *,
    base_dir: str | PathLike[str] = "",
    **options: Any,
) -> Compiled:
    """Make a model ready to run.

    Args:
        model: a model, or the path of an ONNX file, whose external data stays where it is.
        engine: `"onnxruntime"`, or `"reference"`, which is slow and evaluates with NumPy.
        base_dir: the folder of a ModelProto's external data.
        options: for `"onnxruntime"`: `optimization` (`"disabled"`, `"basic"`, `"extended"`,
            `"all"`) and `threads` (0: as many as there are cores).

    Raises:
        ArgumentError: the engine is unknown.
        EngineError: the runtime is missing, or refuses the model.

    >>> f = compile(model)                       # doctest: +SKIP
    >>> f(x=x)["w_grad"], f({"a/b:0": x})        # doctest: +SKIP
    """
    if engine not in _ENGINES:
        raise ArgumentError(f"There is no engine {engine!r}; {nearest(engine, _ENGINES)}")
    source = _source(model, base_dir)
    return Compiled(source, importlib.import_module(_ENGINES[engine]).load(source, **options))


def _source(
    model: ir.Model | onnx.ModelProto | str | PathLike[str], base_dir: str | PathLike[str]
) -> Source:
    if isinstance(model, ir.Model):
        return Source(model)
    if isinstance(model, onnx.ModelProto):
        converted = ir.from_proto(model)
        ir.external_data.set_base_dir(converted.graph, base_dir)
        return Source(converted)
    return Source(ir.load(model), Path(model))

"""Runs models on ONNX Runtime's CPU provider."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np
import onnx_ir as ir

from whileback.engines.base import Source
from whileback.engines.binding import Buffers, can_bind
from whileback.errors import ArgumentError, EngineError, nearest
from whileback.graph.scopes import is_loop, walk
from whileback.graph.versions import LAST_WITHOUT_OUTPUT_DTYPE

__all__ = ["ARRAYS", "Session", "load", "open_session"]

ARRAYS: tuple[type, ...] = ()

_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_NUMPY_FLOATS = (ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)
_ONLY_FATAL = 4
# What is said where an operator is not there for types, often those of 8, 16 or 64 bits.
_NO_KERNEL = (
    ", which is lacking on a CPU for the types that it is given; convert the model to FLOAT, or "
    "take another engine (--engine)"
)
# Messages that tell which node is at fault; of nodes inside each other the innermost comes last.
_BLAMES = (
    re.compile(r".*Name: ?'(?P<node>[^']+)' Status Message: (?P<reason>.*)", re.DOTALL),
    re.compile(r".*Node ?\((?P<node>.+?)\) Op \(\w+\) (?P<reason>.*)", re.DOTALL),
    re.compile(r"Could not find an implementation for .* name '(?P<node>.+)'(?P<reason>)"),
)
_FOLDER = "session.model_external_initializers_file_folder_path"


def load(
    source: Source, /, *, optimization: str = "all", threads: int = 0, flush: bool = False
) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """Return a function that runs the model in one ONNX Runtime session."""
    return open_session(source, optimization=optimization, threads=threads, flush=flush)


def open_session(
    source: Source, *, optimization: str, threads: int, flush: bool, profile: str = ""
) -> Session:
    """Return a session; with `profile`, it writes to a file of that prefix what each node took."""
    if optimization not in _LEVELS:
        raise ArgumentError(
            f"There is no optimization level {optimization!r}; {nearest(optimization, _LEVELS)}"
        )
    if threads < 0:
        raise ArgumentError(f"threads={threads!r} is no number of threads. Give one from 0.")
    runtime = _runtime()
    options = _options(runtime, source, optimization, threads, flush)
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    file = _file(source, options)
    try:
        session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _error(f"ONNX Runtime refuses model {source.name!r}", error) from error
    return Session(runtime, session, source)


def _options(
    runtime: ModuleType, source: Source, optimization: str, threads: int, flush: bool
) -> Any:
    options = runtime.SessionOptions()
    # Whatever goes wrong is raised; what is left is a warning for each default of an input.
    options.log_severity_level = _ONLY_FATAL
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(
        runtime.GraphOptimizationLevel, _LEVELS[optimization]
    )
    # Planning memory anew for every trip costs loops 5 to 10 % of their time.
    options.enable_mem_pattern = not any(is_loop(node) for node in walk(source.model.graph))
    if flush:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    if source.model.opset_imports.get("", 0) > LAST_WITHOUT_OUTPUT_DTYPE:
        # ONNX Runtime 1.32 spoils pairs of INT8 that it moves and then turns into UINT8.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    return options


def _runtime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError as error:
        raise EngineError(
            "The engine 'onnxruntime' needs the package onnxruntime, which is not installed. "
            "Install it with: pip install 'whileback[onnxruntime]'"
        ) from error
    return onnxruntime  # type: ignore[no-any-return]


def _file(source: Source, options: Any) -> str | bytes:
    """Return the path, or the model as bytes that still refer to its external data."""
    if source.path is not None:
        return str(source.path)
    folders = sorted(
        {
            str(value.const_value.base_dir)
            for graph in source.model.graphs()
            for value in graph.initializers.values()
            if isinstance(value.const_value, ir.ExternalTensor)
        }
    )
    if len(folders) > 1:
        listed = ", ".join(map(repr, folders))
        raise EngineError(
            f"ONNX Runtime refuses model {source.name!r}: its external data lies in several "
            f"folders: {listed}. Save it into one folder first."
        )
    if folders:
        options.add_session_config_entry(_FOLDER, folders[0])
    return bytes(ir.to_proto(source.model).SerializeToString())


class Session:
    """Runs one session: called with arguments by name, it returns the outputs in order.

    Types that its NumPy binding does not know go in and out as raw bytes.
    """

    def __init__(self, runtime: ModuleType, session: Any, source: Source) -> None:
        self._runtime = runtime
        self._session = session
        self._name = source.name
        # ONNX Runtime 1.32 lets such a node write its running statistics over its inputs.
        self._overwrites = any(
            node.op_type == "BatchNormalization" and node.attributes.get_int("training_mode", 0)
            for node in walk(source.model.graph)
        )
        self._raw = any(
            _is_raw(value.dtype)
            for value in (*source.model.graph.inputs, *source.model.graph.outputs)
        )

    def __call__(self, arguments: dict[str, Any]) -> Sequence[Any]:
        """Run the model; raises EngineError if that fails."""
        if self._overwrites:
            arguments = {name: copy(value) for name, value in arguments.items()}
        try:
            if self._raw:
                feeds = {name: self._wrap(value) for name, value in arguments.items()}
                results = self._session.run_with_ort_values(None, feeds)
                return [_unwrap(result) for result in results]
            return self._session.run(None, arguments)  # type: ignore[no-any-return]
        except Exception as error:
            raise self._failed(error) from error

    def end_profiling(self) -> str:
        """Return the file that holds what each node took, now that it is whole."""
        return str(self._session.end_profiling())

    def keep(self, following: Mapping[str, str], first: dict[str, Any]) -> Buffers | None:
        """Return buffers for what is carried, None where buffers cannot hold it."""
        if self._raw or self._overwrites or not can_bind(self._session, following, first):
            return None
        return Buffers(self._session, self._wrap, self._failed, following, first)

    def _failed(self, error: Exception) -> EngineError:
        return _error(f"ONNX Runtime failed to run model {self._name!r}", error)

    def _wrap(self, array: np.ndarray) -> Any:
        dtype = ir.DataType.from_numpy(array.dtype)
        make = self._runtime.OrtValue
        if _is_raw(dtype):
            return make.ortvalue_from_numpy_with_onnx_type(_bits(array, dtype), int(dtype))
        return make.ortvalue_from_numpy(array)


def _is_raw(dtype: ir.DataType | None) -> bool:
    """Tell whether NumPy itself lacks the type, so that the runtime's binding does, too."""
    if dtype is None or dtype in _NUMPY_FLOATS or dtype == ir.DataType.STRING:
        return False
    return dtype.is_floating_point() or dtype.bitwidth < 8


def _bits(array: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """Return the array's bits as whole numbers, in its shape; small ones share their bytes."""
    bits = np.array(array, order="C").view(f"u{array.dtype.itemsize}")
    if dtype.bitwidth >= 8:
        return bits
    ratio = 8 // dtype.bitwidth
    places = np.arange(ratio, dtype=np.uint8) * dtype.bitwidth
    rows = np.zeros((-(-bits.size // ratio), ratio), np.uint8)
    rows.flat[: bits.size] = bits.flat
    packed = np.zeros_like(bits)
    packed.flat[: len(rows)] = np.bitwise_or.reduce((rows & (1 << dtype.bitwidth) - 1) << places, 1)
    return packed


def _unwrap(result: Any) -> Any:
    if not result.is_tensor():
        return result.numpy()
    dtype = ir.DataType(result.element_type())
    if not _is_raw(dtype):
        return result.numpy()
    shape = result.shape()
    count = int(np.prod(shape))
    size = -(-count * dtype.bitwidth // 8)
    raw: np.ndarray = np.frombuffer(
        ctypes.string_at(result.data_ptr(), size) if size else b"", np.uint8
    )
    if dtype.bitwidth < 8:
        places = np.arange(0, 8, dtype.bitwidth, dtype=np.uint8)
        raw = (raw[:, None] >> places & (1 << dtype.bitwidth) - 1).reshape(-1)[:count]
    return raw.copy().view(dtype.numpy()).reshape(shape)


def _error(what: str, error: Exception) -> EngineError:
    """Return an error with the runtime's message, without its code and paths in its sources."""
    text = re.sub(
        r"\[ONNXRuntimeError\] : \d+ : \w+ : |/onnxruntime_src/\S+ ", "", str(error)
    ).strip()
    match = next(filter(None, (pattern.match(text) for pattern in _BLAMES)), None)
    remedy = _NO_KERNEL if text.startswith("Could not find an implementation") else ""
    return EngineError(f"{what}: {text}{remedy}", **(match.groupdict() if match else {}))

"""What ONNX Runtime's own profiler tells of a run: each time that a node ran."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whileback.engines import onnxruntime
from whileback.engines.base import Compiled, Source
from whileback.errors import EngineError

__all__ = ["Event", "trace"]

_SUFFIX = "_kernel_time"
# Of the folders that the profiler writes to; the number of the process follows.
_PREFIX = "whileback-profile-"


@dataclass(frozen=True)
class Event:
    """A node that ran once, or with an empty name the whole model.

    Attributes:
        node: the node's name; nodes that ONNX Runtime has put together have names of its own.
        operator: its operator.
        start, duration: when it ran, in microseconds.
        output: how many bytes its outputs have.
        in_use: how many bytes of ONNX Runtime's memory were in use when it ended; 0 if that is
            not told.
    """

    node: str
    operator: str
    start: int
    duration: int
    output: int = 0
    in_use: int = 0


def trace(
    source: Source, arguments: Mapping[str, Any], *, runs: int, optimization: str, threads: int
) -> Iterator[list[Event]]:
    """Run a model several times, and yield the events of each run but the first.

    A node comes after the nodes of its bodies; the whole model comes last.

    Raises:
        ArgumentError: an argument is wrong.
        EngineError: ONNX Runtime is missing or fails, or did not note a whole run: it notes no
            more than a million nodes.
    """
    _remove_left_behind()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        session = onnxruntime.open_session(
            source,
            optimization=optimization,
            threads=threads,
            flush=False,
            profile=str(Path(folder, "profile")),
        )
        compiled = Compiled(source, session, onnxruntime.ARRAYS)
        for _ in range(1 + runs):
            compiled(arguments)
        yield from _runs(Path(session.end_profiling()), source.name)


def _remove_left_behind() -> None:
    """Remove the folders of processes that were killed."""
    if os.name != "posix":  # where asking for a process might end it
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if process.isdecimal() and not _is_running(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # It is another user's.
        return True
    return True


def _runs(file: Path, model: str) -> Iterator[list[Event]]:
    events: list[Event] = []
    count = 0
    for event in _events(file):
        events.append(event)
        if not event.node:
            count += 1
            if count > 1:  # In the first run, memory is taken and caches are filled.
                yield events
            events = []
    if count <= 1:
        raise EngineError(
            f"ONNX Runtime has noted no whole run of model {model!r}: its profiler takes a million "
            "runs of nodes, and this model makes more of them. Give inputs that make fewer trips."
        )


def _events(file: Path) -> Iterator[Event]:
    """Read a file of one event a line, which may be too large to be held whole."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if '"cat"' in line and (event := _event(line)) is not None:
                yield event


def _event(line: str) -> Event | None:
    told = json.loads(line.strip().rstrip(","))
    name, start, duration = str(told["name"]), int(told["ts"]), int(told["dur"])
    if told["cat"] == "Session" and name == "model_run":
        return Event("", "", start, duration)
    if told["cat"] != "Node" or not name.endswith(_SUFFIX):
        return None
    values = told["args"]
    return Event(
        name.removesuffix(_SUFFIX),
        str(values.get("op_name", "")),
        start,
        duration,
        int(values.get("output_size", 0)),
        int(values.get("mem_bytes_in_use", 0)),
    )

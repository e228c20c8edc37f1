"""Runs a function in processes of their own, which may take too long, crash, or be interrupted."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

__all__ = ["run"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# Children have what the parent has loaded.
_PROCESSES = multiprocessing.get_context("fork")


def run(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    processes: int,
    limit: float,
    prepare: Callable[[], None] = lambda: None,
) -> Generator[tuple[Task, Result | str]]:
    """Yield each task with its result as it is done, or with what went wrong with its process.

    Args:
        function: what to call with each task.
        tasks: its arguments.
        processes: how many tasks to run at a time.
        limit: the seconds that one task may take.
        prepare: what each process does first, such as to limit its memory.
    """
    waiting = iter(tasks)
    workers = [_Worker(function, limit, prepare) for _ in range(processes)]
    try:
        busy = [worker for worker in workers if worker.take(waiting)]
        while busy:
            wait([worker.connection for worker in busy], timeout=0.2)
            for worker in list(busy):
                outcome = worker.outcome()
                if outcome is not None:
                    yield outcome
                    if not worker.take(waiting):
                        busy.remove(worker)
    finally:
        for worker in workers:
            worker.stop()


class _Worker(Generic[Task, Result]):
    """One process, started again when it had to be stopped or ended by itself."""

    connection: Connection

    def __init__(
        self, function: Callable[[Task], Result], limit: float, prepare: Callable[[], None]
    ) -> None:
        self._function, self._limit, self._prepare = function, limit, prepare
        self._start()

    def _start(self) -> None:
        self.connection, other = _PROCESSES.Pipe()
        args = (self._function, self._prepare, other)
        self._process = _PROCESSES.Process(target=_serve, args=args, daemon=True)
        self._process.start()
        other.close()

    def take(self, tasks: Iterator[Task]) -> bool:
        """Begin with the next task, if there is one."""
        for task in tasks:
            self._task, self._deadline = task, time.monotonic() + self._limit
            self.connection.send(task)
            return True
        return False

    def outcome(self) -> tuple[Task, Result | str] | None:
        """Return the task and what became of it, once that is known."""
        if self.connection.poll():
            try:
                return self._task, self.connection.recv()
            except EOFError:
                self.stop()
                problem = f"The process ended with code {self._process.exitcode}."
        elif time.monotonic() > self._deadline:
            self.stop()
            problem = f"It takes longer than {self._limit:g} s."
        else:
            return None
        self._start()
        return self._task, problem

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(
    function: Callable[[Task], Result], prepare: Callable[[], None], connection: Connection
) -> None:
    """Answer tasks until the parent is gone; the parent alone deals with Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()
    while True:
        try:
            connection.send(function(connection.recv()))
        except (EOFError, BrokenPipeError):
            return

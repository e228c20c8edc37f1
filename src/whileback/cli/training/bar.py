"""Says how far training is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from types import TracebackType

from whileback.trainer import Moment, Outcome

__all__ = ["Bar", "numbers"]

_WIDTH = 20
# Seconds from one drawing to the next.
_DRAWN, _SAID = 0.1, 30.0


def numbers(values: Mapping[str, float]) -> str:
    """Return `loss 0.1234, accuracy 87.50 %`."""
    return ", ".join(
        f"{name} {100 * value:.2f} %" if name.startswith("accuracy") else f"{name} {value:.4g}"
        for name, value in values.items()
    )


class Bar:
    """Shows on stderr where a run stands, and on stdout what each epoch has come to."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._terminal = sys.stderr.isatty()
        self._begun = self._told = time.monotonic()
        self._steps = 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()

    def step(self, moment: Moment) -> None:
        """Draw a step, unless one was drawn right before."""
        self._steps += 1
        now = time.monotonic()
        if now - self._told < (_DRAWN if self._terminal else _SAID):
            return
        self._told = now
        done, total = moment.batch + 1, moment.batches
        of = f"{done}/{total}" if total else f"step {done}"
        line = f"{_drawn(done, total)}{of}  {numbers(moment.losses)}"
        line = f"epoch {moment.epoch + 1}/{self._epochs}  {line}{self._pace(moment, now)}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{line[:width]}")
            sys.stderr.flush()
        else:
            print(line, file=sys.stderr, flush=True)

    def epoch(self, outcome: Outcome) -> None:
        """Print a line for an epoch."""
        self.clear()
        line = f"epoch {outcome.epochs}/{self._epochs}: {numbers(outcome.losses)}"
        if outcome.evaluation:
            line += f"; evaluation: {numbers(outcome.evaluation)}"
        print(line, flush=True)

    def _pace(self, moment: Moment, now: float) -> str:
        """Return how long a step takes, and all that are left."""
        each = (now - self._begun) / self._steps
        pace = f"  {1000 * each:.3g} ms/step"
        if moment.batches is None:
            return pace
        left = (self._epochs - moment.epoch) * moment.batches - moment.batch - 1
        minutes, seconds = divmod(int(left * each), 60)
        return f"{pace}  {minutes}:{seconds:02d} left"

    def clear(self) -> None:
        """Remove the bar."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _drawn(done: int, total: int | None) -> str:
    if not total:
        return ""
    filled = _WIDTH * done // total
    return f"{'━' * filled}{'─' * (_WIDTH - filled)}  "

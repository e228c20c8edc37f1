"""Words such as `sgd,momentum=0.9` and `cross-entropy,label_smoothing=0.1:logits=y`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_type_hints

from whileback.errors import ArgumentError, nearest
from whileback.signatures import is_of, kind_said
from whileback.training.groups import Group
from whileback.training.losses import LOSSES, Loss
from whileback.training.optimizers import OPTIMIZERS, Optimizer
from whileback.training.schedules import SCHEDULES, Schedule, schedule_named

__all__ = [
    "LossWord",
    "read_axes",
    "read_columns",
    "read_dropout",
    "read_group",
    "read_loss",
    "read_optimizer",
    "read_rate",
    "read_schedule",
]

Part = TypeVar("Part")


class LossWord(NamedTuple):
    """What a word says of a loss: None for an output or a label that it does not name."""

    name: str
    settings: dict[str, Any]
    output: str | None
    label: str | None

    def made(self, word: str, label: str) -> Loss:
        """Return the loss, which compares with this input."""
        settings = {**self.settings, "output": self.output}
        if self.name != "output":
            settings["label"] = label
        return _made(f"--loss {word}", self.name, settings, LOSSES)


def read_loss(word: str) -> LossWord:
    """Return what `NAME[,SETTING=VALUE…][:OUTPUT[=LABEL]]` says.

    Raises: ArgumentError for a setting that is none.

    >>> read_loss("mse,weight=0.5:y=price")
    LossWord(name='mse', settings={'weight': 0.5}, output='y', label='price')
    """
    named, _, target = word.partition(":")
    name, settings = _settings(f"--loss {word}", named)
    output, equals, label = target.rpartition("=")
    if not equals:
        output, label = target, ""
    return LossWord(name, settings, output or None, label or None)


def read_optimizer(word: str) -> Optimizer:
    """Return the optimizer of `NAME[,SETTING=VALUE…]`.

    Raises: ArgumentError for an unknown name or setting.

    >>> read_optimizer("adamw,weight_decay=0.1").weight_decay
    0.1
    """
    name, settings = _settings(f"--optimizer {word}", word)
    return _made(f"--optimizer {word}", name, settings, OPTIMIZERS)


def read_schedule(word: str, warmup: int, steps: int) -> Schedule:
    """Return the schedule of `NAME[,SETTING=VALUE…]`, for so many steps unless it names others.

    Raises: ArgumentError for an unknown name or setting.
    """
    if warmup < 0:
        raise ArgumentError(f"--warmup {warmup} is no number of steps; give one from 0.")
    name, settings = _settings(f"--schedule {word}", word)
    known = inspect.signature(SCHEDULES[name]).parameters if name in SCHEDULES else {}
    if "steps" in known:
        settings.setdefault("steps", max(steps - warmup, 1))
    if name in SCHEDULES:
        _check_types(f"--schedule {word}", SCHEDULES[name], settings)
    return schedule_named(name, warmup_steps=warmup, **settings)


def read_group(word: str) -> Group:
    """Return the group of `PATTERN,SETTING=VALUE…`.

    Raises: ArgumentError for an unknown setting, or none.

    >>> read_group("*bias,rate=10")
    Group(patterns='*bias', rate=10, weight_decay=None, optimizer=None)
    """
    pattern, settings = _settings(f"--group {word}", word)
    if not settings:
        raise ArgumentError(
            f"--group {word} says nothing of these parameters; give a setting: {word},rate=10"
        )
    return _made(f"--group {word}", pattern, {"patterns": pattern, **settings}, {pattern: Group})


def read_dropout(words: Sequence[str]) -> bool | float | dict[str, bool | float] | None:
    """Return what `on`, `0.1` or `PATTERN=0.1 PATTERN=off` say.

    Raises: ArgumentError for other words.

    >>> read_dropout(["*=on", "head*=0.5"])
    {'*': True, 'head*': 0.5}
    """
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return _ratio(words[0])
    pairs = [word.rpartition("=") for word in words]
    for pattern, _, ratio in pairs:
        if not pattern:
            raise ArgumentError(
                f"--dropout {ratio} is said of all nodes, and others of some: say it once for all, "
                "or PATTERN=RATIO for each."
            )
    return {pattern: _ratio(ratio) for pattern, _, ratio in pairs}


def _ratio(word: str) -> bool | float:
    if word in ("on", "off"):
        return word == "on"
    try:
        return float(word)
    except ValueError:
        raise ArgumentError(
            f"--dropout {word} is no ratio; give one, such as 0.1, or on or off, or "
            "PATTERN=RATIO for the nodes that it fits."
        ) from None


def read_columns(words: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the columns and the constants of `x=pixels`, `x=a,b` and `sr=16000`.

    Raises: ArgumentError for a word without a `=`, or an input that comes twice.

    >>> read_columns(["x=a,b", "sr=16000"])
    ({'x': 'a,b'}, {'sr': 16000})
    """
    columns: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not (name and value):
            raise ArgumentError(f"--input {word} is not of the form INPUT=NAME, such as x=pixels.")
        if name in columns or name in constants:
            raise ArgumentError(f"--input names {name!r} twice; give it once.")
        plain = _value(value)
        if isinstance(plain, str):
            columns[name] = value
        else:
            constants[name] = plain
    return columns, constants


def read_axes(words: Sequence[str]) -> dict[str, int]:
    """Return the axes of examples of words such as `state=1`.

    Raises: ArgumentError for other words.

    >>> read_axes(["state=1"])
    {'state': 1}
    """
    for word in words:
        name, _, axis = word.rpartition("=")
        if not (name and axis.isdecimal()):
            raise ArgumentError(f"--axis {word} is not of the form INPUT=AXIS, such as state=1.")
    return {name: int(axis) for name, _, axis in (word.rpartition("=") for word in words)}


def read_rate(rate: float) -> float:
    """Return a learning rate. Raises: ArgumentError for one that is none."""
    if not 0 < rate < 1e38:
        raise ArgumentError(
            f"--lr {rate} is no learning rate; give a number above 0, such as 1e-3."
        )
    return rate


def _settings(option: str, word: str) -> tuple[str, dict[str, Any]]:
    """Part `NAME,SETTING=VALUE,…`; values may have commas."""
    name, *rest = re.split(r",(?=\w+=)", word)
    settings: dict[str, Any] = {}
    for each in rest:
        setting, _, value = each.partition("=")
        if setting in settings:
            raise ArgumentError(f"{option} gives {setting} twice; give it once.")
        settings[setting] = _value(value)
    return name, settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _made(
    option: str, name: str, settings: Mapping[str, Any], table: Mapping[str, Callable[..., Part]]
) -> Part:
    """Return what a table makes of settings."""
    if name not in table:
        raise ArgumentError(f"{option}: {name!r} is unknown; {nearest(name, table)}")
    known = inspect.signature(table[name]).parameters
    for setting in settings:
        if setting not in known:
            raise ArgumentError(
                f"{option}: {name!r} has no setting {setting!r}; {nearest(setting, known)}"
            )
    _check_types(option, table[name], settings)
    return table[name](**settings)


def _check_types(option: str, maker: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse values that are not of the types of a function's parameters."""
    wanted = get_type_hints(maker)
    for setting, value in settings.items():
        kind = wanted.get(setting, object)
        if not is_of(value, kind):
            said = kind_said(kind, written=True)
            raise ArgumentError(f"{option}: {setting}={value!r} is not {said}.")

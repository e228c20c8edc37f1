"""The limit to which nets can be nested."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from google.protobuf.message import DecodeError

from whileback.errors import UnsupportedError

__all__ = ["limited"]

P = ParamSpec("P")
R = TypeVar("R")


def limited(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that nests nets raise UnsupportedError where protobuf refuses to."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DecodeError as error:
            raise UnsupportedError(
                "Branches and loops are nested too deeply: with what the gradient adds, the net "
                "needs more than the 100 levels that a protobuf message can have, six for each "
                "branch or loop. Take some of them apart."
            ) from error

    return checked

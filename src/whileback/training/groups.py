"""Groups of parameters, by patterns of their names, which are trained in another way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from whileback.errors import ArgumentError
from whileback.signatures import require_types
from whileback.training.optimizers import Optimizer, optimizer_named
from whileback.training.parameters import fitting, listed

__all__ = ["Group", "Rule", "rules"]


@dataclass(frozen=True)
class Group:
    """Parameters whose names fit patterns, and what is different for them.

    Attributes:
        patterns: of names, `"*.bias"`, as for `trainable=`.
        rate: the factor by which the learning rate is multiplied.
        weight_decay: in place of the optimizer's.
        optimizer: in place of that of the step; a name in `OPTIMIZERS`, or one with settings.

    Raises: ArgumentError for a rate or a decay below 0, and for an unknown optimizer.

    >>> Group("*.bias", weight_decay=0.0, rate=10.0).rate
    10.0
    """

    patterns: str | Sequence[str]
    rate: float = 1.0
    weight_decay: float | None = None
    optimizer: str | Optimizer | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        require_types(Group, vars(self))
        for name in ("rate", "weight_decay"):
            number = getattr(self, name)
            if number is not None and not number >= 0:
                raise ArgumentError(
                    f"Group({self.patterns!r}) has {name}={number!r}. Give a number from 0."
                )
        if self.optimizer is not None:
            optimizer_named(self.optimizer)

    def rule(self, usual: Optimizer) -> Rule:
        """Return how its parameters are trained where others have the usual optimizer."""
        chosen = usual if self.optimizer is None else optimizer_named(self.optimizer)
        if self.weight_decay is not None:
            chosen = replace(chosen, weight_decay=self.weight_decay)
        return Rule(chosen, self.rate)


@dataclass(frozen=True)
class Rule:
    """How a parameter is trained: by which optimizer, and with what factor to the rate."""

    optimizer: Optimizer
    rate: float = 1.0

    def without_decay(self) -> Rule:
        """Return the same with a weight decay of 0."""
        return replace(self, optimizer=replace(self.optimizer, weight_decay=0.0))


def rules(
    names: Sequence[str],
    usual: Optimizer,
    groups: Group | Sequence[Group],
    no_decay: str | Sequence[str],
) -> dict[str, Rule]:
    """Return for each name of a parameter how it is trained.

    Raises: ArgumentError for a pattern that fits none, and for a name that two groups have.
    """
    several = list(groups) if isinstance(groups, Iterable) else [groups]
    chosen = {name: Rule(usual) for name in names}
    owners: dict[str, Group] = {}
    for group in several:
        if not isinstance(group, Group):
            raise ArgumentError(
                f"groups= has {group!r}. Give whileback.training.Group(patterns, …), or several."
            )
        for name in fitting(listed(group.patterns), names, "groups"):
            if name in owners:
                raise ArgumentError(
                    f"groups= has '{name}' twice, by {owners[name].patterns!r} and by "
                    f"{group.patterns!r}: a parameter is in one group. Narrow one of the patterns."
                )
            owners[name] = group
            chosen[name] = group.rule(usual)
    for name in fitting(listed(no_decay), names, "no_decay"):
        chosen[name] = chosen[name].without_decay()
    return chosen

"""Lanes: which one a message goes to, and how a reading budget is shared between them (pure).

Reading is strict, highest lane first, but each lower lane has a guaranteed share, so that a flood
in a higher lane cannot starve it (deficit round robin, Shreedhar and Varghese 1995).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import InvalidOption, UnknownLane

#: Lane -> guaranteed percentage of what is read while higher lanes are never empty.
DEFAULT_LANES: Mapping[str, float] = {"high": 0, "default": 20, "low": 5}

#: The share of a lower lane, in percent, when only names are given.
DEFAULT_SHARE = 10.0

#: Each lane is a stream more to read.
MOST_LANES = 64

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ALLOWED = (
    f"a sequence of 1 to {MOST_LANES} distinct names, highest lane first, or a mapping of such"
    " names to the guaranteed share in percent (lower lanes above 0, together below 100);"
    " a name has 1 to 64 of the characters a-z A-Z 0-9 _ -"
)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a broker, highest first, each with its guaranteed share between 0 and 1."""

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, value: Sequence[str] | Mapping[str, float]) -> Lanes:
        """Read the option `lanes`.

        Raises:
            InvalidOption: Names repeat or are malformed, or the shares leave nothing to the first.
        """
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | Mapping):
            raise InvalidOption.of("lanes", value, _ALLOWED)
        names = tuple(value)
        named = all(isinstance(name, str) and _NAME.match(name) for name in names)
        if not 0 < len(names) <= MOST_LANES or not named or len(set(names)) != len(names):
            raise InvalidOption.of("lanes", value, _ALLOWED)
        percentages = value if isinstance(value, Mapping) else _equal_shares(names)
        return cls(names, _shares(names, percentages))

    def position(self, name: object) -> int:
        """Where *name* stands, the highest lane being 1.

        Raises:
            UnknownLane: There is no such lane.
        """
        if isinstance(name, str) and name in self.names:
            return self.names.index(name) + 1
        raise UnknownLane.of("lane", name, f"one of {', '.join(map(repr, self.names))}")

    @property
    def default_position(self) -> int:
        """The lane of priority 0: the one named "default", else the middle one."""
        if "default" in self.names:
            return self.names.index("default") + 1
        return (len(self.names) + 1) // 2

    def position_of_priority(self, priority: object) -> int:
        """The lane for a dramatiq priority: lower numbers come sooner.

        Raises:
            InvalidOption: *priority* is not a number.
        """
        if type(priority) is int and priority == 0:  # nearly always
            return self.default_position
        is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
        if not is_number or not -math.inf <= priority <= math.inf:  # type: ignore[operator]
            raise InvalidOption.of("priority", priority, "a number; below 0 comes sooner")
        shift = (priority > 0) - (priority < 0)  # type: ignore[operator]
        return min(max(self.default_position + shift, 1), len(self.names))

    def choose(
        self,
        message_options: Mapping[str, object],
        actor_options: Mapping[str, object],
        actor_priority: object = 0,
    ) -> int:
        """The position of the lane that a message goes to.

        The message's options win over its actor's, and a `lane` over a `priority`.
        """
        lane = message_options.get("lane")
        if lane is None:
            lane = actor_options.get("lane")
        if lane is not None:
            return self.position(lane)
        priority = message_options.get("priority")
        return self.position_of_priority(actor_priority if priority is None else priority)


class Credits:
    """How many entries each lower lane may claim ahead of the higher ones, carried over reads."""

    def __init__(self, lanes: Lanes) -> None:
        self._shares = lanes.shares
        self._earned = [0.0] * len(lanes.shares)
        self._budget = 0

    def grant(self, budget: int) -> list[int]:
        """Whole entries that each lane is owed out of the next *budget* entries."""
        self._budget = budget
        for index, share in enumerate(self._shares):
            self._earned[index] += share * budget
        return [int(earned) for earned in self._earned]

    def spend(self, counts: Sequence[int]) -> None:
        """Take off what was read of each lane.

        A lane that had less than it was owed starts anew; one that the budget did not reach,
        because higher lanes were owed all of it, stays owed. When nothing was there, or the queue
        is paused, nothing is owed to anybody.
        """
        if not any(counts):
            self._earned = [0.0] * len(self._earned)
            return
        left = self._budget
        for index, count in enumerate(counts):
            reached = min(int(self._earned[index]), left)
            left -= min(count, reached)
            if count < reached:
                self._earned[index] %= 1
            else:
                self._earned[index] = max(self._earned[index] - count, 0.0)


def _equal_shares(names: tuple[str, ...]) -> dict[str, float]:
    lower = len(names) - 1
    share = min(DEFAULT_SHARE, 50.0 / lower) if lower else 0.0
    return {name: 0.0 if index == 0 else share for index, name in enumerate(names)}


def _shares(names: tuple[str, ...], percentages: Mapping[str, float]) -> tuple[float, ...]:
    values = [percentages[name] for name in names]
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise InvalidOption.of("lanes", dict(percentages), _ALLOWED)
    # Not the other way round: a NaN is neither.
    if not all(0 <= value < 100 for value in values) or not sum(values) < 100:
        raise InvalidOption.of("lanes", dict(percentages), _ALLOWED)
    shares = tuple(value / 100 for value in values)
    if not all(shares[1:]):  # The smallest number of all is nothing as a percentage.
        raise InvalidOption.of("lanes", dict(percentages), _ALLOWED)
    return shares

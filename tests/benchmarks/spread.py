"""Numbers from measurements: quantiles of one run, and medians with their spread over rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median over the rounds, and the least and the most."""

    median: float
    least: float
    most: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least *share* of all *values* do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]

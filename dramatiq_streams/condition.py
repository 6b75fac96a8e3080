"""How a worker process does on one queue, as it tells with each heartbeat."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """Ages in milliseconds, at the time of the heartbeat that tells of them."""

    #: Since its consumer thread last did its work without an error; None before the first time.
    attended_ms: int | None = None
    #: For how long the oldest acknowledgement that the server has not confirmed waits.
    unconfirmed_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read what `str` wrote, among other words; what is missing is not known."""
        found = {name: int(age) for name, age in re.findall(r"\b([fa])(\d+)\b", text)}
        return cls(found.get("f"), found.get("a", 0))

    def __str__(self) -> str:
        attended = [] if self.attended_ms is None else [f"f{self.attended_ms}"]
        return " ".join([*attended, f"a{self.unconfirmed_ms}"])

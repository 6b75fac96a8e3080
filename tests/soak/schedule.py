"""Which fault comes when: from a seed alone, the same in every run (pure).

Four tracks go on at the same time, so that faults of different kinds meet. On one track the next
fault begins when the one before is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

#: Seconds. Short, so that much can happen in a minute.
LEASE = 5.0
GRACE = 2.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: how long it lasts, and a number that chooses whom it strikes."""

    at: float
    track: str
    name: str
    seconds: float
    choice: int

    def __str__(self) -> str:
        return f"{self.at:7.2f} s  {self.track:8} {self.name} for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    weight: float
    least: float = 0.0
    most: float = 0.0


#: By track: the seconds between two faults, and the faults.
TRACKS: dict[str, tuple[tuple[float, float], tuple[_Kind, ...]]] = {
    "workers": (
        (1.0, 5.0),
        (
            _Kind("kill_worker", 4),
            _Kind("kill_command", 1),
            _Kind("stop_briefly", 3, 0.2, LEASE / 2),
            _Kind("stop_for_long", 2, LEASE + 1, LEASE + 4),
            _Kind("terminate", 3),
        ),
    ),
    "server": (
        (2.0, 7.0),
        (
            _Kind("restart", 2, 0.0, 2.0),
            _Kind("crash", 2, 0.0, 3.0),
            _Kind("be_away", 1, LEASE + 1, LEASE + 3),
            _Kind("hang", 2, 0.5, 4.0),
            _Kind("flush_scripts", 2),
            _Kind("kill_clients", 4),
            _Kind("fill", 2, 1.0, 5.0),
            _Kind("delete_lane", 1),
            _Kind("flush_all", 0.5),
        ),
    ),
    "wire": (
        (0.5, 4.0),
        (
            _Kind("lose_replies", 5, 0.5, 3.0),
            _Kind("lose_requests", 3, 0.5, 3.0),
            _Kind("slow_replies", 2, 1.0, 5.0),
            _Kind("refuse", 3, 0.3, LEASE + 2),
            _Kind("cut", 2),
        ),
    ),
    "people": (
        (1.0, 4.0),
        (
            _Kind("cancel", 5),
            _Kind("pause", 2, 1.0, 4.0),
            _Kind("kill_sender", 2),
        ),
    ),
}


def schedule(seed: int, seconds: float) -> list[Fault]:
    """The faults of a soak of so many *seconds*, by time; none lasts beyond them by much."""
    return sorted(
        (fault for track in TRACKS for fault in _faults_of(track, seed, seconds)),
        key=lambda fault: fault.at,
    )


def _faults_of(track: str, seed: int, seconds: float) -> Iterator[Fault]:
    random = Random(f"{seed} {track}")
    gap, kinds = TRACKS[track]
    at = random.uniform(*gap)
    while at < seconds:
        (kind,) = random.choices(kinds, [kind.weight for kind in kinds])
        lasts = random.uniform(kind.least, kind.most)
        yield Fault(at, track, kind.name, lasts, random.randrange(1_000_000))
        at += lasts + random.uniform(*gap)

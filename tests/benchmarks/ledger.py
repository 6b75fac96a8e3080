"""Which message started when, written by the actors themselves: exact, and cheap.

Each worker process has a file of its own, mapped into memory: noting a start takes about half a
microsecond and no system call, and what was noted survives the process.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SLOT = struct.Struct("<qd")
#: Starts that one process can note; the file is sparse.
_CAPACITY = 2_000_000
_STEP = 64


class LostOrTwice(Exception):
    """A run that has to count as failed, however fast it was."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of one message, on the monotonic clock that all processes share."""

    number: int
    at: float
    pid: int


class Writer:
    """This process's file; opened by the first note, and anew after a fork."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Open another file for the next note."""
        self._slots = itertools.count()
        self._map: mmap.mmap | None = None

    def note(self, number: int) -> None:
        """Message *number* starts now."""
        slot = next(self._slots)  # atomic
        memory = self._map or self._open()
        _SLOT.pack_into(memory, slot * _SLOT.size, number, time.monotonic())

    def _open(self) -> mmap.mmap:
        directory = self._directory or Path(os.environ["BENCH_DIRECTORY"])
        path = directory / f"{os.getpid()}.ledger"
        # Several threads may come here at once: all of them map the same pages.
        with path.open("ab+") as file:
            file.truncate(_CAPACITY * _SLOT.size)
            self._map = memory = mmap.mmap(file.fileno(), 0)
        return memory


note = Writer().note


class Reader:
    """What all workers of one trial have noted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._maps: dict[int, mmap.mmap] = {}
        self._positions: Counter[int] = Counter()

    def pids(self) -> list[int]:
        """The processes that have noted a start."""
        self._open_new()
        return [pid for pid in self._maps if self._is_filled(pid, 0)]

    def count(self) -> int:
        """How many starts there were so far; cheap, for waiting."""
        self._open_new()
        for pid in self._maps:
            position = self._positions[pid]
            while self._is_filled(pid, position + _STEP):
                position += _STEP
            while self._is_filled(pid, position):
                position += 1
            self._positions[pid] = position
        return self._positions.total()

    def starts(self) -> list[Start]:
        """Every start, in the order of their times."""
        self._open_new()
        found = [one for pid in self._maps for one in self._read(pid)]
        return sorted(found, key=lambda one: one.at)

    def close(self) -> None:
        """Let go of the files."""
        for memory in self._maps.values():
            memory.close()
        self._maps.clear()

    def _open_new(self) -> None:
        for path in self._directory.glob("*.ledger"):
            pid = int(path.stem)
            if pid not in self._maps and path.stat().st_size:
                with path.open("rb") as file:
                    self._maps[pid] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _is_filled(self, pid: int, position: int) -> bool:
        return position < _CAPACITY and bool(self._slot(pid, position)[1])

    def _slot(self, pid: int, position: int) -> tuple[int, float]:
        number, at = _SLOT.unpack_from(self._maps[pid], position * _SLOT.size)
        return number, at

    def _read(self, pid: int) -> Iterable[Start]:
        # A killed process can leave a hole of as many slots as it had threads.
        position, holes = 0, 0
        while position < _CAPACITY and holes < _STEP:
            number, at = self._slot(pid, position)
            position += 1
            holes = 0 if at else holes + 1
            if at:
                yield Start(number, at, pid)


def check_each_once(starts: Iterable[Start], expected: Iterable[int]) -> None:
    """Every expected message has started exactly once, and no other has.

    Raises:
        LostOrTwice: How many were lost, twice and unknown.
    """
    counts = Counter(one.number for one in starts if one.number >= 0)
    wanted = set(expected)
    lost = len(wanted - counts.keys())
    twice = sum(count - 1 for count in counts.values())
    unknown = len(counts.keys() - wanted)
    if lost or twice or unknown:
        raise LostOrTwice(f"{lost} lost, {twice} run twice, {unknown} unknown")

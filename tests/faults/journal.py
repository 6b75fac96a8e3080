"""What ran where: a file that every process of a test appends to, and that outlives them all."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Note(NamedTuple):
    """Something that happened to the message with this label, in this process."""

    label: str
    event: str
    pid: int


class Journal:
    """The notes in *directory*, which also holds the files that actors wait for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / "journal"

    def note(self, label: str, event: str = "ran") -> None:
        """Add a note; what was noted before a SIGKILL stays."""
        line = f"{label} {event} {os.getpid()}\n".encode()
        with self._path.open("ab", buffering=0) as file:
            file.write(line)

    def notes(self) -> list[Note]:
        """All notes so far, oldest first."""
        text = self._path.read_text() if self._path.exists() else ""
        words = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [Note(label, event, int(pid)) for label, event, pid in words]

    def pids(self, label: str, event: str = "ran") -> list[int]:
        """The processes in which *event* happened to *label*, oldest first."""
        return [note.pid for note in self.notes() if note[:2] == (label, event)]

    def counts(self, event: str = "ran") -> Counter[str]:
        """How often *event* happened to each label."""
        return Counter(note.label for note in self.notes() if note.event == event)

    def allow(self, name: str) -> None:
        """Let go on whoever waits for *name*."""
        (self.directory / name).touch()

    def is_allowed(self, name: str) -> bool:
        """Whether `allow` was called for *name*."""
        return (self.directory / name).exists()

    def use_up(self, name: str) -> bool:
        """Take back what `allow` allowed; True for exactly one of all who try."""
        try:
            (self.directory / name).unlink()
        except FileNotFoundError:
            return False
        return True

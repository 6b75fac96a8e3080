"""What every process of a soak has noted: files that all of them append to, and that outlive them.

A note is one line, written at once, so that what was noted before a SIGKILL stays. Times are those
of the machine's monotonic clock, which all processes share.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Note(NamedTuple):
    """Something that happened at *at* (seconds) in the process called *who*."""

    at: float
    who: str
    event: str
    facts: dict[str, Any]


class Journal:
    """The notes of one soak in *directory*; *who* is this process."""

    def __init__(self, directory: Path, who: str, *, name: str = "journal") -> None:
        self._path = directory / name
        self._who = who
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def note(self, event: str, *, who: str | None = None, **facts: Any) -> float:
        """Add a note, in the name of *who* or of this process; returns its time."""
        at = time.monotonic()
        line = json.dumps([round(at, 4), who or self._who, event, facts]) + "\n"
        os.write(self._descriptor, line.encode())
        return at

    def notes(self) -> list[Note]:
        """All notes so far in the order of their times."""
        return sorted(_complete(self._path.read_bytes()), key=lambda note: note.at)


class Tail:
    """Reads what was added to a journal since the last look."""

    def __init__(self, directory: Path, *, name: str) -> None:
        self._path = directory / name
        self._offset = 0

    def read(self) -> list[Note]:
        """What is new."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._offset += len(text)
        return list(_complete(text))


def _complete(text: bytes) -> Iterator[Note]:
    for line in text.split(b"\n")[:-1]:
        yield Note(*json.loads(line))

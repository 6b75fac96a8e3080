"""What a server has done, from the log that it appends every write to."""

from collections.abc import Iterator
from pathlib import Path


def commands(directory: Path) -> Iterator[list[bytes]]:
    """Every write in the log below *directory*, in order; that of a script as what it wrote."""
    for path in sorted(directory.rglob("*.aof")):
        with path.open("rb") as file:
            while head := file.readline():
                if head[:1] != b"*":  # a note on time, in newer servers
                    continue
                words = []
                for _ in range(int(head[1:])):
                    length = int(file.readline()[1:])
                    words.append(file.read(length))
                    file.read(2)
                yield words

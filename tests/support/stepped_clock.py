"""A server's wall clock that a test sets while the server runs; its monotonic clock goes on.

Debian's libfaketime stands between the server and the clock: installed, or unpacked into the cache.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .binaries import Binary, ServerMissing, find_binary
from .debian import PackageMissing, unpack, unpacked

_PACKAGE = "libfaketime"
_LIBRARY = "usr/lib/*-linux-*/faketime/libfaketimeMT.so.1"
#: Its jemalloc asks for the time before libfaketime can answer, and the server does not start.
_IMPOSSIBLE = "redis70"


class SteppedClock:
    """The clock of each server that is started from `binary`.

    Args:
        directory: Where its offset is kept.

    Raises:
        ServerMissing: libfaketime cannot be had on this machine.
    """

    def __init__(self, directory: Path) -> None:
        self._offset = directory / "clock"
        self._library = _found_library()
        self.set(0)

    def binary(self) -> Binary:
        """The server that `TEST_SERVER` names; Valkey 9 in place of one that cannot have it."""
        named = find_binary()
        binary = find_binary("valkey9") if named.name == _IMPOSSIBLE else named
        environment = {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        return replace(binary, environment={**binary.environment, **environment})

    def set(self, seconds: int) -> None:
        """Let it show so many seconds more than this machine's, from now on."""
        written = self._offset.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        written.rename(self._offset)  # It is read at any time.


def _found_library() -> Path:
    for path in _places():
        return path
    try:
        unpack(_PACKAGE, [_PACKAGE])
    except PackageMissing as error:
        raise ServerMissing(f"{_PACKAGE} is not installed, and {error}") from error
    for path in _places():
        return path
    raise ServerMissing(f"apt's {_PACKAGE} has no {_LIBRARY} in {os.fspath(unpacked(_PACKAGE))}")


def _places() -> Iterator[Path]:
    yield from Path("/").glob(_LIBRARY)
    yield from unpacked(_PACKAGE).glob(_LIBRARY)

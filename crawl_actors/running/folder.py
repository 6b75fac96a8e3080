"""The output directory of a run: its files, its lock, and which crawl it holds."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from crawl_actors.running.options import UsageError
from crawl_actors.settings import CrawlSettings

_FORMAT = 1

# What the command line calls the seeds and settings.
_OPTIONS = {
    "seeds": "the URLs",
    "max_depth": "--depth",
    "max_pages": "--max-pages",
    "allow": "--allow",
    "delay_ms": "--delay",
    "user_agent": "--user-agent",
    "deadline_ms": "--deadline",
    "max_retries": "--max-retries",
    "obey_robots": "--no-robots",
}

State = Literal["new", "running", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlFile:
    """What `crawl.json` says: which crawl the directory holds, and how far it came.

    *state* is `new` until its frontier was made and `finished` once it was exported.
    """

    crawl_id: str
    namespace: str
    state: State
    seeds: tuple[str, ...]
    settings: CrawlSettings

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is something else, or of another release.
        """
        values: Any = json.loads(text)
        if not isinstance(values, dict) or values.pop("format", None) != _FORMAT:
            raise ValueError("its format is not known to this release")
        try:
            settings = CrawlSettings.from_dict(values.pop("settings"))
            return cls(**{**values, "seeds": tuple(values["seeds"]), "settings": settings})
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is damaged: {error}") from error

    def to_json(self) -> str:
        """This as text."""
        values = {"format": _FORMAT, **asdict(self), "settings": self.settings.to_dict()}
        return json.dumps(values, indent=2) + "\n"


class RunFolder:
    """The directory *path*, held by one run at a time.

    Raises:
        UsageError: It cannot be made or written, or another run holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "run.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write to the output directory {path}: {error}") from error
        try:
            # Held by the open file, so it is free again however this process ends.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UsageError(
                f"another run is using {path}; wait for it, or choose another --out"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    @property
    def database(self) -> Path:
        """The storage."""
        return self.path / "pages.sqlite"

    @property
    def export(self) -> Path:
        """The pages as JSON Lines, once the crawl is over."""
        return self.path / "pages.jsonl"

    @property
    def log(self) -> Path:
        """What the workers print."""
        return self.path / "workers.log"

    @property
    def lifeline(self) -> Path:
        """The pipe that ends the workers when the run is gone."""
        return self.path / "run.lifeline"

    def crawl(self) -> CrawlFile | None:
        """The crawl this directory holds, None when it is fresh.

        Raises:
            UsageError: `crawl.json` cannot be read.
        """
        path = self.path / "crawl.json"
        try:
            return CrawlFile.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} cannot be used: {error}; choose another --out, or delete it to begin anew"
            ) from error

    def keep(self, crawl: CrawlFile) -> None:
        """Write `crawl.json`, at once or not at all."""
        temporary = self.path / "crawl.json.new"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(crawl.to_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "crawl.json")

    def choose(
        self, seeds: tuple[str, ...], settings: CrawlSettings, *, restart: bool
    ) -> tuple[CrawlFile, CrawlFile | None]:
        """The crawl to work on: the unfinished one, when it is the one that is asked for.

        Returns:
            The crawl, which is not kept yet, and the unfinished one that *restart* gives up.

        Raises:
            UsageError: The unfinished crawl has other seeds or settings.
        """
        old = self.crawl()
        is_open = old is not None and old.state != "finished"
        if old is not None and is_open and not restart:
            _require_same(old, seeds, settings, out=self.path)
            return old, None
        new = CrawlFile(
            crawl_id=secrets.token_hex(8),
            # One namespace per directory: runs that share a server must not share a queue, or the
            # pages of one would be stored by the other.
            namespace=old.namespace if old else f"crawl-actors-{secrets.token_hex(4)}",
            state="new",
            seeds=seeds,
            settings=settings,
        )
        return new, old if is_open else None

    def mark(self, crawl: CrawlFile, state: State) -> CrawlFile:
        """Keep that *crawl* has come to *state*."""
        marked = replace(crawl, state=state)
        self.keep(marked)
        return marked


def _require_same(
    old: CrawlFile, seeds: tuple[str, ...], settings: CrawlSettings, *, out: Path
) -> None:
    old_values = {"seeds": sorted(old.seeds), **old.settings.to_dict()}
    new_values = {"seeds": sorted(seeds), **settings.to_dict()}
    differences = [
        f"{_OPTIONS.get(name, name)} {_shown(name, old_value)} there,"
        f" {_shown(name, new_values[name])} here"
        for name, old_value in old_values.items()
        if old_value != new_values[name]
    ]
    if differences:
        raise UsageError(
            f"{out} holds an unfinished crawl with other options: {'; '.join(differences)}."
            " Run that command again to finish it, choose another --out,"
            " or give it up with --restart"
        )


def _shown(name: str, value: Any) -> str:
    """A seed or setting as the command line has it."""
    if name == "obey_robots":
        return "is not given" if value else "is given"
    if value is None:
        return "is not given"
    if name in ("delay_ms", "deadline_ms"):
        return f"is {value / 1000:g}"
    if isinstance(value, list):
        return f"{'are' if name == 'seeds' else 'is'} {' '.join(value)}"
    return f"is {value}"

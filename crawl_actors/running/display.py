"""How a run shows its progress: one live line in a terminal, elsewhere a line now and then."""

from __future__ import annotations

from time import monotonic
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from crawl_actors.frontier import Progress

_PLAIN_INTERVAL_S = 5.0


class Display:
    """Shows progress on *console* between `__enter__` and `__exit__`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next_line = monotonic() + _PLAIN_INTERVAL_S

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, progress: Progress, *, rate: float, note: str = "") -> None:
        """Show *progress* and pages per second; *note* tells what the run is waiting for."""
        line = describe(progress, rate=rate) + (f" · {note}" if note else "")
        if self._console.is_terminal:
            self._live.update(Text(line), refresh=True)
        elif monotonic() >= self._next_line:
            self._next_line = monotonic() + _PLAIN_INTERVAL_S
            self.say(line)

    def say(self, line: str) -> None:
        """Print *line* for good."""
        self._console.print(Text(line), soft_wrap=True)


def finished_pages(progress: Progress) -> int:
    """How many pages are done, whatever became of them."""
    return sum(count for name, count in progress.counts.items() if name != "bytes")


def counted(number: int, word: str) -> str:
    """*number* and *word*, in the plural unless there is one: `1 page`, `0 pages`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def describe(progress: Progress, *, rate: float) -> str:
    """*progress* in one line."""
    counts = progress.counts
    redirects = counts.get("redirect", 0)
    return " · ".join(
        [
            counted(counts.get("ok", 0), "page"),
            *([counted(redirects, "redirect")] if redirects else []),
            *(f"{counts[name]} {name}" for name in ("failed", "excluded") if counts.get(name)),
            f"{progress.open} to do",
            f"{rate:.1f} a second",
        ]
    )

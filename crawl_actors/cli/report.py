"""What the commands print about a finished run."""

from __future__ import annotations

from http import HTTPStatus

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawl_actors.running import RunResult
from crawl_actors.running.display import counted


def print_summary(result: RunResult, *, console: Console) -> None:
    """Print what *result* holds: statuses, errors, bytes, speed, and where it is."""
    if result.summary.pages:
        console.print(_table(result))
    for line in _endings(result):
        console.print(Text(line), soft_wrap=True)


def _table(result: RunResult) -> Table:
    summary = result.summary
    seconds = result.elapsed_ms / 1000
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("URLs", str(summary.pages), "")
    for status, count in sorted(summary.statuses.items()):
        table.add_row(f"  status {status}", str(count), _phrase(status))
    for kind, count in sorted(summary.errors.items()):
        table.add_row(f"  error {kind}", str(count), "")
    table.add_row("bytes", f"{summary.bytes:,}", "")
    table.add_row("seconds", f"{seconds:.1f}", "this run")
    if seconds > 0:
        rate = result.run_pages / seconds
        table.add_row("per second", f"{rate:.1f}", f"this run: {counted(result.run_pages, 'URL')}")
    return table


def _endings(result: RunResult) -> list[str]:
    lines = []
    if result.exit_code != 0:
        lines.append(f"Not done: {result.reason}")
    if result.finished:
        lines.append(f"Pages: {result.out / 'pages.jsonl'} and {result.out / 'pages.sqlite'}")
    return lines


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""

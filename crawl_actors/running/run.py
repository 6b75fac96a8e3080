"""Runs one crawl: prepares it, sees it to its end, and exports it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rich.console import Console

from crawl_actors.actors.sending import fetches
from crawl_actors.frontier import Claim, Frontier
from crawl_actors.requirements import require_server
from crawl_actors.running.display import Display, counted
from crawl_actors.running.folder import CrawlFile, RunFolder
from crawl_actors.running.options import RunOptions, RunResult, UsageError
from crawl_actors.running.orphans import Orphans, PagesStuck
from crawl_actors.running.watch import SERVER_TROUBLE, ServerGone, StateLost, Watch
from crawl_actors.running.workers import Workers, WorkersFailed
from crawl_actors.seeding import scoped_settings, seed_urls
from crawl_actors.settings import Environment, embedded_url
from crawl_actors.setup import make_broker
from crawl_actors.storage import SqliteStorage, Summary
from dramatiq_streams import StreamsBroker

DONE, FAILED = 0, 1

_STOP_FINISHED_S = 15.0


class Interrupted(KeyboardInterrupt):
    """The run was told to stop by the signal *number*; a plain KeyboardInterrupt is SIGINT."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_crawl(options: RunOptions, *, console: Console | None = None) -> RunResult:
    """Crawl until nothing is open, or until interrupted; continue what an earlier run left.

    Progress is printed to *console*; None prints to standard error.

    Raises:
        UsageError: A seed is no http or https URL, or `out` cannot be used: it holds an unfinished
            crawl with other seeds or settings, or another run is using it.
        PackagesMissing: The embedded server is needed, and not installed.
    """
    try:
        seeds = tuple(seed_urls(options.seeds))
        settings = scoped_settings(options.settings, seeds)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if options.redis_url is None or options.redis_url.startswith("embedded:"):
        require_server()
    with RunFolder(options.out) as folder:
        crawl, given_up = folder.choose(seeds, settings, restart=options.restart)
        environment = Environment(
            url=options.redis_url or embedded_url(folder.path),
            namespace=crawl.namespace,
            out=folder.path,
            lease_ms=options.lease_ms,
        )
        try:
            broker = make_broker(environment)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with closing(broker), closing(SqliteStorage(folder.database)) as storage:
            run = _Run(options, folder, crawl, environment, broker, storage)
            return run.perform(console or Console(stderr=True), given_up=given_up)


@dataclass(slots=True)
class _Run:
    options: RunOptions
    folder: RunFolder
    crawl: CrawlFile
    environment: Environment
    broker: StreamsBroker
    storage: SqliteStorage
    began: float = 0.0
    pages_before: int = 0
    elapsed_ms: int = 0

    def perform(self, console: Console, *, given_up: CrawlFile | None) -> RunResult:
        self.began = monotonic()
        self.pages_before = self.storage.summary(self.crawl.crawl_id).pages
        with Display(console) as display:
            try:
                self._begin(display, given_up)
                self._work(display)
            except KeyboardInterrupt as interrupt:
                number = getattr(interrupt, "number", signal.SIGINT)
                return self._result(128 + number, "interrupted")
            except (WorkersFailed, PagesStuck, ServerGone, StateLost) as error:
                return self._result(FAILED, str(error))
            except SERVER_TROUBLE as error:
                return self._result(FAILED, f"the server cannot be used: {error}")
        return self._finish()

    def _begin(self, display: Display, given_up: CrawlFile | None) -> None:
        frontier = self._frontier(self.crawl)
        has_begun = frontier.settings() is not None
        # Only now, as the server has answered: a crawl that could not begin is not kept.
        self.folder.keep(self.crawl)
        if given_up is not None:
            self._frontier(given_up).delete()
        if has_begun:
            progress = frontier.progress()
            display.say(f"Continuing an unfinished crawl: {counted(progress.open, 'URL')} to do.")
        elif self.crawl.state == "running":
            raise UsageError(
                f"{self.folder.path} holds an unfinished crawl, but its state is not on this"
                " server; name the server it ran on, or begin anew with --restart"
            )
        else:
            todo = frontier.start(self.crawl.settings, self.crawl.seeds)
            self.broker.enqueue_many(fetches(self.crawl.crawl_id, map(Claim, todo)))
        self.crawl = self.folder.mark(self.crawl, "running")

    def _work(self, display: Display) -> None:
        workers = Workers(
            self.folder,
            processes=self.options.processes,
            threads=self.options.threads,
            environment=self.environment.to_variables(),
        )
        frontier = self._frontier(self.crawl)
        orphans = Orphans(self.broker, frontier, crawl_id=self.crawl.crawl_id)
        watch = Watch(frontier, workers=workers, orphans=orphans, display=display)
        with self._stopping(workers, display):
            watch.until_over()
            self.elapsed_ms = self._since_start()

    @contextmanager
    def _stopping(self, workers: Workers, display: Display) -> Iterator[None]:
        patience_s = _STOP_FINISHED_S
        try:
            yield
        except KeyboardInterrupt:
            display.say("Stopping after the pages at work; press Ctrl-C again to end at once.")
            # A page at work takes no longer than its deadline.
            patience_s += self.crawl.settings.deadline_ms / 1000
            raise
        finally:
            workers.stop(timeout_s=patience_s)

    def _finish(self) -> RunResult:
        self.storage.export_jsonl(self.folder.export, self.crawl.crawl_id)
        self.crawl = self.folder.mark(self.crawl, "finished")
        self._frontier(self.crawl).delete()
        summary = self.storage.summary(self.crawl.crawl_id)
        if any(200 <= status < 300 for status in summary.statuses):
            return self._result(DONE, "")
        return self._result(
            FAILED, f"no page could be fetched: {_why(summary)}; workers.log tells more"
        )

    def _result(self, exit_code: int, reason: str) -> RunResult:
        summary = self.storage.summary(self.crawl.crawl_id)
        return RunResult(
            crawl_id=self.crawl.crawl_id,
            finished=self.crawl.state == "finished",
            summary=summary,
            exit_code=exit_code,
            out=Path(self.options.out),
            resumable=self.crawl.state == "running",
            run_pages=summary.pages - self.pages_before,
            elapsed_ms=self.elapsed_ms or self._since_start(),
            reason=reason,
        )

    def _frontier(self, crawl: CrawlFile) -> Frontier:
        return Frontier(self.broker.client, namespace=crawl.namespace, crawl_id=crawl.crawl_id)

    def _since_start(self) -> int:
        return int((monotonic() - self.began) * 1000)


def _why(summary: Summary) -> str:
    kinds = [f"{name} ({count})" for name, count in summary.errors.items()]
    kinds += [f"status {status} ({count})" for status, count in summary.statuses.items()]
    return ", ".join(kinds) or "nothing was asked for"

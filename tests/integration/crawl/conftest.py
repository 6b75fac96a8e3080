"""A small site on loopback that remembers what was asked for, and crawls of it by real workers."""

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest

from tests.support.processes import start_process


@dataclass
class Answer:
    """What the site says at one path; `statuses` are given one by one, the last one for ever."""

    body: str = ""
    statuses: tuple[int, ...] = (200,)
    headers: Mapping[str, str] = field(default_factory=dict)


def links(*targets: str) -> Answer:
    """A page of links."""
    return Answer("".join(f'<a href="{target}">x</a>' for target in targets))


class Site:
    """Serves *answers*, path by path; the rest, robots.txt for instance, is not found."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.requests: Counter[str] = Counter()
        #: When each request arrived, by the clock of `monotonic`.
        self.arrivals: list[float] = []
        #: Cleared by a test that wants all requests but those for robots.txt to wait.
        self.is_open = threading.Event()
        self.is_open.set()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def url(self, path: str = "/") -> str:
        return self.origin + path

    def close(self) -> None:
        self.is_open.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str) -> tuple[int, Answer]:
        """What the next request for *path* gets."""
        with self._lock:
            number = self.requests[path]
            self.requests[path] += 1
            self.arrivals.append(monotonic())
        answer = self.answers.get(path, Answer("not found", statuses=(404,)))
        return answer.statuses[min(number, len(answer.statuses) - 1)], answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, answer = site.answer(self.path)
                if self.path != "/robots.txt":
                    site.is_open.wait(30)
                body = answer.body.encode()
                self.send_response(status)
                headers = {"Content-Type": "text/html", **answer.headers}
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler


@pytest.fixture
def make_site() -> Iterator[Callable[[Mapping[str, Answer]], Site]]:
    """Makes a site for one test."""
    sites: list[Site] = []

    def make(answers: Mapping[str, Answer]) -> Site:
        sites.append(Site(answers))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def tree(make_site: Callable[[Mapping[str, Answer]], Site]) -> Site:
    """A tree of 1 + 6 + 36 pages, all of which link to the root."""
    answers = {"/": links(*(f"/{top}" for top in range(6)))}
    for top in range(6):
        answers[f"/{top}"] = links("/", *(f"/{top}/{leaf}" for leaf in range(6)))
        answers.update({f"/{top}/{leaf}": links("/", f"/{top}") for leaf in range(6)})
    return make_site(answers)


def stored(out: Path) -> dict[str, tuple[Any, ...]]:
    """Path -> (status, depth, error) of all that is stored in *out*."""
    with closing(sqlite3.connect(out / "pages.sqlite")) as connection:
        rows = connection.execute("SELECT url, status, depth, error FROM pages").fetchall()
    return {"/" + url.split("/", 3)[3]: tuple(rest) for url, *rest in rows}


def exported(out: Path) -> list[dict[str, Any]]:
    """The lines of `pages.jsonl`."""
    return [json.loads(line) for line in (out / "pages.jsonl").read_text().splitlines()]


class Run:
    """`crawl-actors run` in a process of its own; `log` is all it printed."""

    def __init__(self, out: Path, arguments: tuple[str, ...]) -> None:
        self.out = out
        self._log = out.parent / f"{out.name}.log"
        command = [sys.executable, "-m", "crawl_actors", "run", *arguments, "--out", str(out)]
        self.process: subprocess.Popen[bytes] = start_process(
            command, log=self._log, cwd=out.parent, new_session=True
        )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait(self, timeout: float = 60.0) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout)

    def workers(self) -> list[psutil.Process]:
        """The main process of dramatiq, then its workers; empty while there are none."""
        mains = psutil.Process(self.process.pid).children()
        return [process for main in mains for process in (main, *main.children())]


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts `crawl-actors run ARGUMENT...` in `tmp_path / "out"`."""
    runs: list[Run] = []

    def start(*arguments: str) -> Run:
        runs.append(Run(tmp_path / "out", arguments))
        return runs[-1]

    yield start
    for run in runs:
        left = run.workers() if run.process.poll() is None else []
        run.process.kill()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        run.process.wait(20)

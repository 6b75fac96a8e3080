"""Runs the marked code blocks of a page as a reader would, in a directory of its own.

The first line of a block says what it is:

    ```python file=NAME     is saved under that name
    ```sh run               is run to its end, which must be a success
    ```sh start             is one command that goes on in the background until the page ends
    ```text stop            is Ctrl-C for the command above, which was started
    ```text output          must come from the command above: its lines, in this order

In an output, `...` stands for anything within a line. Port 8000 becomes one that is free.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from dramatiq_streams.embedded import stop
from tests.docs.pages import Block, DocPage
from tests.support.waiting import wait_until

_PORT = re.compile(r"\b8000\b")
_RUN_S = 60.0
_STOP_S = 20.0


class PageRun:
    """One page's blocks at work in *directory*; `with` ends whatever it has started.

    Args:
        directory: Is made, with its parents.
        patience_s: How long a promised output may take.
    """

    def __init__(self, page: DocPage, directory: Path, *, patience_s: float = 45.0) -> None:
        self.page = page
        self.directory = directory
        self._patience_s = patience_s
        directory.mkdir(parents=True)
        self._port = str(_free_port())
        self._output = directory.parent / "output"
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.terminate()
        for process in self._started:
            self._end(process)
        for lock in self.directory.rglob("running.lock"):
            stop(lock.parent)

    def perform(self) -> None:
        """Do what the page says, block after block."""
        for block in self.page.blocks:
            if block.mark.startswith("file="):
                self._save(block)
            elif block.mark == "run":
                self._run(block)
            elif block.mark == "start":
                self._start(block)
            elif block.mark == "stop":
                self._interrupt()
            elif block.mark == "output":
                self._expect(block)
            else:
                assert not block.mark, f"{self.page!r}: no such mark: {block.mark!r}"

    def _save(self, block: Block) -> None:
        path = self.directory / block.mark.removeprefix("file=")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._filled(block.text), encoding="utf-8")

    def _run(self, block: Block) -> None:
        with self._output.open("wb") as output:
            code = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", self._filled(block.text)],
                cwd=self.directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=_RUN_S,
                check=False,
            ).returncode
        assert code == 0, f"{block.text!r} ended with {code}:\n{self._printed()}"

    def _start(self, block: Block) -> None:
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._filled(block.text)}"],
                cwd=self.directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._started.append(process)

    def _interrupt(self) -> None:
        process = self._started.pop()
        process.send_signal(signal.SIGINT)
        self._end(process)

    def _expect(self, block: Block) -> None:
        lines = [line for line in self._filled(block.text).splitlines() if line.strip()]
        pattern = re.compile(".*?".join(map(_line_pattern, lines)), re.DOTALL)
        try:
            wait_until(
                lambda: pattern.search(self._printed()), timeout=self._patience_s, interval=0.05
            )
        except AssertionError:
            raise AssertionError(
                f"{self.page!r} promises\n{block.text}\nbut there was\n{self._printed()}"
            ) from None

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """Wait for *process*, and kill it with its group when that takes too long."""
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _filled(self, text: str) -> str:
        return _PORT.sub(self._port, text)

    def _printed(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")


def _line_pattern(line: str) -> str:
    return r"[^\n]*".join(re.escape(part) for part in line.strip().split("..."))


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRAWL_")}
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "NO_COLOR": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

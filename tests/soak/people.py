"""The people of a soak: operators who cancel messages, and pause and resume queues.

They use the command `dramatiq-streams`, and reach the server without a proxy.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .crew import LANES, QUEUES
from .journal import Journal, Tail
from .sender import WISHES

_COMMAND_SECONDS = 60.0
_RESUME_SECONDS = 60.0
_MOST_WISHES = 15
_FINE, _NEGATIVE, _UNREACHABLE = 0, 1, 3
_ALL = [word for queue in QUEUES for word in ("--queue", queue)]


class People:
    """Operators of one namespace."""

    def __init__(self, url: str, namespace: str, directory: Path, journal: Journal) -> None:
        # The lanes: an empty server does not know the queues until somebody tells it again.
        lanes = ",".join(LANES)
        self._place = ["--url", url, "--namespace", namespace, "--lanes", lanes, "--json"]
        self._directory = directory
        self._journal = journal
        self._wishes = Tail(directory, name=WISHES)

    def cancel(self) -> None:
        """Cancel the latest messages that may be cancelled."""
        ids = [note.facts["id"] for note in self._wishes.read()][-_MOST_WISHES:]
        if not ids:
            return
        self._journal.note("cancelling", ids=ids)
        code, told = self._run("messages", "cancel", *ids, *_ALL)
        if code == _UNREACHABLE:
            return
        for one in told["messages"]:
            self._journal.note("cancelled", id=one["message_id"], outcome=one["outcome"])
        self._journal.note("has cancelled", ids=ids)

    def pause(self, queue: str) -> None:
        """Pause *queue*; the server may be away."""
        self._run("queue", "pause", "--queue", queue)

    def resume(self, queue: str) -> None:
        """Resume *queue*, whatever it takes.

        Raises:
            TimeoutError: It cannot be resumed.
        """
        deadline = time.monotonic() + _RESUME_SECONDS
        while self._run("queue", "resume", "--queue", queue)[0] == _UNREACHABLE:
            if time.monotonic() > deadline:
                raise TimeoutError(f"queue {queue} cannot be resumed")

    def look(self) -> list[dict[str, Any]]:
        """The state of each queue.

        Raises:
            AssertionError: It cannot be seen.
        """
        code, told = self._run("stats", *_ALL)
        assert code == _FINE, f"stats ended with {code}"
        return list(told["queues"])

    def _run(self, *arguments: str) -> tuple[int, Any]:
        """The exit code, and what was printed.

        Raises:
            RuntimeError: The command has failed in a way that it should not.
        """
        program = "import sys; from dramatiq_streams.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments, *self._place],
            cwd=self._directory,  # Python looks for modules there first
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
        if done.returncode in (_FINE, _NEGATIVE):
            if done.stdout:
                return done.returncode, json.loads(done.stdout)
        elif done.returncode == _UNREACHABLE:
            return done.returncode, None
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr}")

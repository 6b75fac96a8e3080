"""The thread that talks to one lock server, so that no caller waits for a server that hangs."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from dramatiq.errors import ConnectionFailed

from .master import Master
from .votes import Answer, LockCommand, Verdict

#: The most commands that wait for one master. They wait while one has its timeout, not longer.
MOST_WAITING = 1_000

#: The most that are sent in one go.
MOST_AT_ONCE = 100

Answers = SimpleQueue[tuple[int, Answer]]


@dataclass(frozen=True, slots=True)
class _Job:
    command: LockCommand
    is_kept: bool
    answers: Answers | None


class MasterThread:
    """Asks one master in a thread of its own, in the order in which it was told to.

    So a release never overtakes the command whose lock it releases. What has piled up during a
    round trip goes with the next one, however far away the master is. The thread begins with the
    first command. Callers can be interrupted anywhere; what they share with it is written in C.

    Args:
        number: Stands in front of each answer.
        master: Nobody else may ask it.
    """

    def __init__(self, number: int, master: Master) -> None:
        self.master = master
        self._number = number
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running = threading.Lock()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(
        self, command: LockCommand, *, is_kept: bool = False, answers: Answers | None = None
    ) -> None:
        """Ask soon; the answer goes to *answers*, at once if the master is not asked at present."""
        is_refused = self.master.is_away or self._jobs.qsize() >= MOST_WAITING
        if self._is_closed or (is_refused and not is_kept):
            if answers is not None:
                error = ConnectionFailed("it is away, and was not asked")
                answers.put((self._number, Answer(Verdict.UNSENT, error)))
            return
        self._jobs.put(_Job(command, is_kept, answers))
        if not self._running.locked():
            # An interrupt while it starts a thread can leave the caller waiting for ever in
            # `Thread.start`; so that is done in a thread that nobody interrupts.
            _thread.start_new_thread(self._start, ())

    def close(self, *, timeout: float) -> None:
        """End the thread after what it was told to do, waiting up to *timeout* seconds for it."""
        self._is_closed = True
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout)
        self.master.close()

    def _start(self) -> None:
        name = f"dramatiq-streams-lock-server-{self._number}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        # Before it runs, callers may have started more of them: all but one end at once.
        if not self._running.acquire(blocking=False):
            return
        self._thread = threading.current_thread()
        try:
            while self._work():
                self.master.probe()
        finally:
            self._running.release()

    def _work(self) -> bool:
        """Do the next jobs, or nothing if it is time to probe; False when there are no more."""
        try:
            job = self._jobs.get(timeout=self.master.seconds_to_probe())
        except Empty:
            return True
        if job is None:
            # For a second thread that was started with this one, and begins only now.
            self._jobs.put(None)
            return False
        jobs = [job, *self._waiting()]
        answers = self.master.answers([(each.command, each.is_kept) for each in jobs])
        for each, answer in zip(jobs, answers, strict=True):
            if each.answers is not None:
                each.answers.put((self._number, answer))
        return True

    def _waiting(self) -> Iterator[_Job]:
        """The jobs that wait by now, as many as go with another one."""
        for _ in range(MOST_AT_ONCE - 1):
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            if job is None:
                self._jobs.put(None)  # After these.
                return
            yield job

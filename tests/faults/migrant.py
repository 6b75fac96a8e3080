"""`dramatiq-streams migrate` in processes of its own, which kill themselves at a given moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from dramatiq_streams.cli.place import FINE, NEGATIVE

#: Few messages at once, so that few messages pass through many moments.
PAGE = 4

#: What begins all that changes anything: a death around a look is one after the last change.
WRITES = {"EVAL", "EVALSHA", "HSET", "SCRIPT"}


class Migrants:
    """Starts migrations: forked from a process that has imported everything, and has no threads."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._requests, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._requests.close()
        self._process.join(10)

    def start(self, moment: int, arguments: Sequence[str]) -> int:
        """Start one that dies by SIGKILL at moment number *moment*; its pid.

        The moments are: before a change is sent, after its reply has come, and, of a pipeline, when
        the first half of it has been carried out.
        """
        return int(self._ask((moment, list(arguments))))

    def wait(self, pid: int, *, may_leave: bool = False) -> bool:
        """Whether it has died; False if it came to its end before.

        Args:
            may_leave: It may have had to leave what workers of RedisBroker held.
        """
        code = self._ask(pid)
        assert code in {FINE, -signal.SIGKILL, *[NEGATIVE] * may_leave}, code
        return code == -signal.SIGKILL

    def run(self, moment: int, arguments: Sequence[str]) -> bool:
        """Start one and wait for it."""
        return self.wait(self.start(moment, arguments))

    def _ask(self, request: object) -> Any:
        self._requests.send(request)
        assert self._requests.poll(30), f"no answer to {request}"
        return self._requests.recv()


def _serve(requests: Connection) -> None:
    import dramatiq_streams.cli  # noqa: F401

    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        if isinstance(request, int):
            requests.send(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]))
            continue
        pid = os.fork()
        if not pid:
            os._exit(_migrate(*request))
        requests.send(pid)


def _migrate(moment: int, arguments: Sequence[str]) -> int:
    from dramatiq_streams.cli import main
    from dramatiq_streams.migration import moving, source

    vars(source)["PAGE"] = vars(moving)["PAGE"] = PAGE
    _die_at(moment)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        return main(arguments)


def _die_at(moment: int) -> None:
    """Count the moments in all that sends commands."""
    from dramatiq_streams.executor import Executor

    left = moment
    execute, execute_many = Executor.execute, Executor.execute_many

    def pass_moment() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute_or_die(self: Executor, *command: Any) -> Any:
        if command[0] not in WRITES:
            return execute(self, *command)
        pass_moment()
        reply = execute(self, *command)
        pass_moment()
        return reply

    def execute_many_or_die(self: Executor, commands: Sequence[Any]) -> Any:
        if commands[0][0] not in WRITES:
            return execute_many(self, commands)
        pass_moment()
        if left == 1:
            execute_many(self, commands[: len(commands) // 2])
        pass_moment()
        replies = execute_many(self, commands)
        pass_moment()
        return replies

    executor: Any = Executor
    executor.execute, executor.execute_many = execute_or_die, execute_many_or_die
